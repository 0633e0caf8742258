"""Read the texts that units are selected from, and write the selected units."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cascade_srn.apps.annotation.selection import Selected
from cascade_srn.apps.extract.table_output import StreamTarget, Target
from cascade_srn.apps.extract.writers import check_suffix
from cascade_srn.config import require_choice
from cascade_srn.errors import CascadeError, DataError
from cascade_srn.formats.files import to_json
from cascade_srn.formats.jsonl import to_record
from cascade_srn.formats.label_studio import to_task
from cascade_srn.inputs.sources import Text, Unreadable
from cascade_srn.storage.atomic import AtomicFile
from cascade_srn.types import Document

if TYPE_CHECKING:
    from cascade_srn.text.segment import Segmenter

FORMATS = ("jsonl", "label-studio")


class ReadableTexts:
    """Iterable of the documents of all texts that can be read and split. The others are reported and counted.

    Args:
        sources: The texts, such as :class:`cascade_srn.inputs.sources.Sources`.
        segmenter: Splits the texts.
        strict: Raise the error of the first text that cannot be used.
        tell: Called with the message of each other one.
    """

    def __init__(
        self,
        sources: Iterable[Text | Unreadable],
        segmenter: Segmenter,
        *,
        strict: bool = False,
        tell: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        self._sources, self._segmenter, self._strict, self._tell = sources, segmenter, strict, tell
        self.n_bad = 0
        self.position = 0

    def __iter__(self) -> Iterator[Document]:
        for source in self._sources:
            self.position = source.position
            made = source.error if isinstance(source, Unreadable) else self._split(source)
            if isinstance(made, Document):
                yield made
            elif self._strict:
                raise made
            else:
                self.n_bad += 1
                self._tell(str(made))

    def _split(self, source: Text) -> Document | CascadeError:
        try:
            if isinstance(source.text, Document):
                return source.text
            source.text.encode()
            return Document.from_text(source.text, id=source.id, segmenter=self._segmenter)
        except UnicodeEncodeError as error:
            return DataError(f"{source.place}: the text contains an unpaired surrogate at character {error.start}")
        except CascadeError as error:
            return DataError(f"{source.place}: {error.problem}", error.hint, option=error.option)


def choose_format(format: str | None, output: Path | None) -> str:
    """Return the given format, or that of the output's suffix: "label-studio" for ``.json``, else "jsonl"."""
    check_suffix(output)
    if format is None:
        return "label-studio" if output is not None and output.suffix.lower() == ".json" else "jsonl"
    require_choice("format", format, FORMATS)
    return format


def write_selected(selected: Sequence[Selected], output: Path | None, format: str, *, model: str = "") -> None:
    """Write units to a file, or to standard output if it is None. A file appears complete or not at all.

    Args:
        selected: The units.
        output: The file.
        format: "jsonl" or "label-studio".
        model: Name of the model, for Label Studio.
    """
    require_choice("format", format, FORMATS)
    if format == "jsonl":
        parts = [to_json(to_record(one.document) | {"selection": one.to_dict()}) + "\n" for one in selected]
    else:
        tasks = ",\n".join(to_json(to_prediction_task(one, model)) for one in selected)
        parts = [f"[\n{tasks}\n]\n"]
    target: Target = StreamTarget(sys.stdout.buffer) if output is None else AtomicFile(output)
    try:
        for part in parts:
            target.write(part.encode())
        target.commit()
    except BaseException:
        if isinstance(target, AtomicFile):
            target.discard()
        raise


def to_prediction_task(selected: Selected, model: str = "") -> dict[str, Any]:
    """Return a unit as a task of Label Studio. The annotations of the model are a prediction, not an annotation.

    A task without annotations would otherwise count as done. Rank and score are in ``data``, where Label Studio shows
    and sorts them as columns.
    """
    task = to_task(selected.document)
    (found,) = task.get("predictions") or task["annotations"]
    predictions = [found | ({"model_version": model} if model else {})] if found["result"] else []
    return {"data": task["data"] | selected.to_dict(), "predictions": predictions}
