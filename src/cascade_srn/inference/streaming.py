"""Many texts through a model: some at a time, in their order, the bad ones apart."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cascade_srn.errors import CascadeError, ConfigError, did_you_mean
from cascade_srn.types import Document

# A text with longer words than this on average counts by its characters: a word can be as long as a text.
CHARACTERS_PER_WORD = 16

# How many batches' worth of texts are taken at a time, so that sentences of similar length go together: few at
# first, for the first results to come soon.
_FIRST_BATCHES, _MOST_BATCHES = 1, 16


@dataclass(frozen=True)
class BadText:
    """A text that nothing could be extracted from: the how many-th it was, counted from 0, and why."""

    position: int
    text: Any
    error: Exception

    def __str__(self) -> str:
        return f"text {self.position}: {reason(self.error)}"


def reason(error: Exception) -> str:
    """What an error says, with its type where it is none of ours and may say little without."""
    return str(error) if isinstance(error, CascadeError) else f"{type(error).__name__}: {error}"


Outcome = Document | BadText
OnError = str | Callable[[BadText], Document | None]


def error_policy(on_error: OnError) -> Callable[[BadText], Document | None]:
    """What to do with a bad text, by the name of a policy or as the caller does it."""
    if callable(on_error):
        return on_error
    named = {"warn": _warn, "skip": _skip, "raise": _raise}
    if on_error not in named:
        raise ConfigError(
            f"on_error is {on_error!r}, not one of {', '.join(named)} or a function. "
            f"{did_you_mean(str(on_error), named)}"
        )
    return named[on_error]


def _skip(bad: BadText) -> None:
    return None


def _warn(bad: BadText) -> None:
    warnings.warn(f"left out: {bad}", stacklevel=3)


def _raise(bad: BadText) -> None:
    raise bad.error


def parts(outcomes: Iterator[Outcome], batch_words: int) -> Iterator[list[Outcome]]:
    """Texts by the part, each of some batches' worth of words; the texts of a part are taken when it is asked for.

    Where the texts end in an error, it is raised after the part of those that came before it.
    """
    n_batches = _FIRST_BATCHES
    failure: Exception | None = None
    while failure is None:
        part, failure = _words_worth(outcomes, n_batches * batch_words)
        if part:
            yield part
        elif failure is None:
            return
        n_batches = min(2 * n_batches, _MOST_BATCHES)
    raise failure


def _words_worth(outcomes: Iterator[Outcome], n_words: int) -> tuple[list[Outcome], Exception | None]:
    """The next texts, until they hold that many words; and what kept from taking more."""
    taken: list[Outcome] = []
    count = 0
    try:
        for outcome in outcomes:
            taken.append(outcome)
            count += 1
            if isinstance(outcome, Document):
                words = sum(len(sentence) for sentence in outcome.sentences)
                count += max(words, len(outcome.text) // CHARACTERS_PER_WORD)
            if count >= n_words:
                break
    except Exception as error:
        return taken, error
    return taken, None


def attempt(
    numbered: Sequence[tuple[int, Document]], predict: Callable[[Sequence[Document]], list[Document]]
) -> dict[int, Outcome]:
    """What a model makes of documents, by their positions; where it fails on some together, in halves.

    So a document that it fails on costs the others nothing but time.
    """
    if not numbered:
        return {}
    try:
        found = predict([document for _, document in numbered])
    except Exception as error:
        if len(numbered) == 1:
            position, document = numbered[0]
            return {position: BadText(position, document, error)}
        middle = len(numbered) // 2
        return attempt(numbered[:middle], predict) | attempt(numbered[middle:], predict)
    return {position: document for (position, _), document in zip(numbered, found, strict=True)}
