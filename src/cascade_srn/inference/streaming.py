"""Extraction from a stream of texts: parts of bounded size, in order, with bad texts handled apart."""

import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar

from cascade_srn.errors import CascadeError, ConfigError, describe_error, did_you_mean, short_repr
from cascade_srn.inference.options import ThresholdsLike
from cascade_srn.types import Document

# A text counts as at least one word per this many characters, because a single word can be as long as a text.
CHARACTERS_PER_WORD = 16

# Batches per part. More batches allow better sorting by length. The first part is small, so that results come soon.
_FIRST_BATCHES, MOST_BATCHES = 1, 16


@dataclass(frozen=True)
class BadText:
    """A text, as the stream gave it, that extraction failed on. Positions are zero-based."""

    position: int
    text: Any
    error: Exception

    def __str__(self) -> str:
        return f"text {self.position}: {describe_error(self.error)}"


Context = TypeVar("Context")
Result = TypeVar("Result")
Outcome = Document | BadText
OnError = str | Callable[[BadText], Document | None]
LabelChoice = str | Collection[str]


class StreamOptions(TypedDict, total=False):
    """Options of :meth:`.Extractor.stream`."""

    batch_words: int | None
    labels: LabelChoice | None
    thresholds: ThresholdsLike | None
    overlaps: str | None
    on_error: OnError
    progress: bool
    workers: int


def error_policy(on_error: OnError) -> Callable[[BadText], Document | None]:
    """Return the function that handles bad texts: the caller's, or that of the policy "warn", "skip" or "raise"."""
    if callable(on_error):
        return on_error
    policies = {"warn": _warn, "skip": lambda bad: None, "raise": _raise}
    if on_error not in policies:
        raise ConfigError(
            f"on_error is {on_error!r}, not one of {', '.join(policies)} or a function",
            did_you_mean(str(on_error), policies),
        )
    return policies[on_error]


def _warn(bad: BadText) -> None:
    warnings.warn(f"skipped {bad}", stacklevel=3)


def _raise(bad: BadText) -> None:
    if type(bad.error) is CascadeError:
        problem = f"text {bad.position}: {bad.error.problem}"
        raise CascadeError(problem, bad.error.hint, option=bad.error.option) from bad.error
    # Errors of other types, which a segmenter may raise, cannot be made again.
    bad.error.add_note(f"This happened with text {bad.position}, counted from 0.")
    raise bad.error


def split_into_parts(
    outcomes: Iterator[Outcome], batch_words: int, n_batches: int = _FIRST_BATCHES
) -> Iterator[list[Outcome]]:
    """Split a stream into parts of a few batches each. Texts are read when their part is requested.

    The first part has ``n_batches`` batches, and each other one twice as many as the one before, up to a limit. If the
    stream raises an error, the texts before it are yielded first.
    """
    failure: Exception | None = None
    while failure is None:
        part, failure = _read_part(outcomes, n_batches * batch_words)
        if part:
            yield part
        elif failure is None:
            return
        n_batches = min(2 * n_batches, MOST_BATCHES)
    raise failure


def _read_part(outcomes: Iterator[Outcome], n_words: int) -> tuple[list[Outcome], Exception | None]:
    """Read texts until they have ``n_words`` words. Return them, and the error that ended the stream, if any."""
    part: list[Outcome] = []
    count = 0
    try:
        for outcome in outcomes:
            part.append(outcome)
            count += 1
            if isinstance(outcome, Document):
                words = sum(len(sentence) for sentence in outcome.sentences)
                count += max(words, len(outcome.text) // CHARACTERS_PER_WORD)
            if count >= n_words:
                break
    except Exception as error:
        return part, error
    return part, None


def attempt(
    numbered: Sequence[tuple[int, Document]], predict: Callable[[Sequence[tuple[int, Document]]], list[Document]]
) -> dict[int, Outcome]:
    """Predict documents, given with their positions. If that fails, halve them until those that fail are isolated.

    Returns the annotated document, or the failure, by position.
    """
    if not numbered:
        return {}
    try:
        predicted = predict(numbered)
    except Exception as error:
        if len(numbered) == 1:
            position, document = numbered[0]
            return {position: BadText(position, document, error)}
        middle = len(numbered) // 2
        return attempt(numbered[:middle], predict) | attempt(numbered[middle:], predict)
    return {position: document for (position, _), document in zip(numbered, predicted, strict=True)}


def split_pairs(pairs: Iterable[Any], contexts: deque[Any]) -> Iterator[Any]:
    """Yield the texts of pairs of text and context, and append the contexts to a queue."""
    for position, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise CascadeError(
                f"item {position} is {short_repr(pair)}, not a pair",
                "Give (text, context) pairs, or leave out as_tuples",
            )
        text, context = pair
        contexts.append(context)
        yield text


def finish(
    results: Iterable[Document | None], contexts: deque[Any] | None, labels: LabelChoice | None
) -> Iterator[Any]:
    """Drop the texts that were skipped, choose the labels, and add the contexts if there are any."""
    for document in results:
        context = None if contexts is None else contexts.popleft()
        if document is not None:
            chosen = document if labels is None else document.filter(labels=labels)
            yield chosen if contexts is None else (chosen, context)


def show_progress(results: Iterable[Result], n_texts: int | None) -> Iterator[Result]:
    """Yield results, and show on standard error how many there are."""
    from rich.console import Console
    from rich.progress import track

    yield from track(results, "extracting", total=n_texts, console=Console(stderr=True))
