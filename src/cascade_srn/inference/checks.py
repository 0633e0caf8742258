"""Checks of what callers pass to an extractor, and of the process it runs in."""

import os
from collections.abc import Iterable

from cascade_srn.errors import CascadeError
from cascade_srn.types import Document

# The process in which a model first ran. A forked process inherits it.
_first_used_in: int | None = None


def refuse_forked(*, survives: bool) -> None:
    """Raise an error in a process that was forked after a model ran, unless the model survives that."""
    global _first_used_in
    _first_used_in = os.getpid() if _first_used_in is None else _first_used_in
    if _first_used_in != os.getpid() and not survives:
        raise CascadeError(
            "this process was forked after a model was used, and the threads of the model do not survive a fork",
            "Start processes with 'spawn', or call torch.set_num_threads(1) in them first",
        )


def list_documents(documents: Iterable[Document]) -> list[Document]:
    """Return documents as a list, or raise an error if they are something else."""
    if isinstance(documents, str | Document):
        raise CascadeError(
            f"documents is a {type(documents).__name__}, not a list of Documents",
            "Pass [document], or use extract for a single text",
        )
    listed = list(documents)
    for number, document in enumerate(listed):
        if not isinstance(document, Document):
            raise CascadeError(
                f"item {number} is a {type(document).__name__}, not a Document",
                "Make one with Document.from_text, or use extract or stream for texts",
            )
    return listed


def check_characters(text: str) -> None:
    """Refuse unpaired surrogates, which no tokenizer accepts and no UTF-8 file can contain."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise CascadeError(
            f"the text contains an unpaired surrogate, {text[error.start]!r}, at character {error.start}",
            "Remove it, or replace it with text.encode('utf-8', 'replace').decode()",
        ) from None
