"""Select the sentences or documents of raw text that help most when they are annotated, and write them."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cascade_srn.apps.annotation.strategies import STRATEGIES, rank_units
from cascade_srn.apps.annotation.units import DecisionFinder, Unit, UnitSettings, annotate
from cascade_srn.apps.extract.targets import StreamTarget
from cascade_srn.apps.extract.writers import check_suffix
from cascade_srn.config import require_choice, require_range
from cascade_srn.errors import CascadeError, ConfigError, DataError
from cascade_srn.formats.files import to_json
from cascade_srn.formats.jsonl import to_record
from cascade_srn.formats.label_studio import to_task
from cascade_srn.inputs.sources import Text, Unreadable
from cascade_srn.inputs.texts import sentence_key
from cascade_srn.storage.atomic import replacing
from cascade_srn.types import Document

if TYPE_CHECKING:
    from cascade_srn.extractor import Extractor
    from cascade_srn.text.segment import Segmenter

# Units that are kept in memory: this many, or this many for each one to select.
MIN_POOL, POOL_PER_UNIT = 20_000, 50
# Units that a model reads at a time, so that sentences of similar length share a batch.
_UNITS_AT_ONCE = 256


@dataclass(frozen=True)
class Selected:
    """A unit that was selected.

    Attributes:
        document: The sentence or document, with the predictions of the model if there is one.
        rank: Position in the ranking, from 1.
        score: How much it helps by the strategy, given the units before it.
        source: Id of the document that it is from.
        position: Zero-based position of that document in the input.
        sentence: Zero-based position of the sentence in that document; None for a whole document.
        start: Character offset of the sentence in that document.
    """

    document: Document
    rank: int
    score: float
    source: str
    position: int
    sentence: int | None
    start: int

    def to_dict(self) -> dict[str, int | float | str]:
        """Return the place of the unit in ranking and input as plain values."""
        found: dict[str, int | float | str] = {"rank": self.rank, "score": round(self.score, 6), "source": self.source}
        return found if self.sentence is None else found | {"sentence": self.sentence, "start": self.start}


def select(
    texts: Iterable[str | Document],
    n: int,
    *,
    model: Extractor | None = None,
    strategy: str | None = None,
    settings: UnitSettings | None = None,
    annotated: Iterable[Document] = (),
    segmenter: Segmenter | None = None,
    batch_words: int = 4096,
    progress: Callable[[int], None] = lambda n_documents: None,
) -> list[Selected]:
    """Select the sentences or documents that help most when they are annotated.

    Texts are read one by one. At most 20,000 units are kept in memory, or 50 for each one to select if that is more:
    the best ones if a model is used, and a random sample otherwise. Units that repeat others are left out. Random
    choices depend on the seed and the words only, not on the order of the texts.

    Args:
        texts: Texts or documents.
        n: Number of units to select. Fewer are returned if the texts do not have more.
        model: The extractor whose predictions are used.
        strategy: "combined", "uncertainty" or "coverage", which need a model; "diversity" or "random". None:
            "combined" with a model, else "diversity".
        settings: What a unit is, and the seed.
        annotated: Documents that are annotated already. Their sentences are not selected again.
        segmenter: Splits texts. None: the segmenter of the model, or the default one.
        batch_words: Maximum number of words that the model reads at once, padding included.
        progress: Called with the number of documents read so far.

    Returns:
        The units, best first.

    Raises:
        ConfigError: If an option is invalid, or the strategy needs a model.
        DataError: If the texts have no unit that can be selected.

    Example:
        >>> texts = ["We train a CRF for tagging. An HMM is old.", "We train a CRF for tagging, too."]
        >>> for found in select(texts, 2, strategy="diversity"):
        ...     print(found.rank, found.document.text)
        1 We train a CRF for tagging.
        2 An HMM is old.
    """
    if isinstance(texts, str | bytes | Document) or not isinstance(texts, Iterable):
        raise ConfigError(f"texts is a {type(texts).__name__}, not an iterable of texts", "Pass [text]")
    settings = UnitSettings() if settings is None else settings
    require_range("n", n, 1)
    strategy = choose_strategy(strategy, has_model=model is not None)
    known = list(annotated)
    if segmenter is None and model is not None:
        segmenter = model.segmenter
    documents = _documents(texts, segmenter, progress)
    units = _new_units(documents, settings, known)
    finder = DecisionFinder(model, batch_words) if model is not None and STRATEGIES[strategy].needs_model else None
    pool = _pool(units, finder, strategy, max(MIN_POOL, POOL_PER_UNIT * n), known)
    if not pool:
        raise DataError(
            "the texts have no sentence to select: all are shorter than min_words, longer than max_words, or annotated",
            "Give other texts, or change min_words and max_words",
            option="min_words",
        )
    ranked = rank_units(pool, strategy, n, known)
    taken = [unit for unit, _ in ranked]
    made = _without_predictions(taken) if model is None else annotate(model, taken, batch_words)
    return [
        Selected(
            document,
            rank,
            gain,
            unit.document.id,
            unit.position,
            unit.sentence,
            0 if unit.sentence is None else unit.sentences[0].start,
        )
        for rank, ((unit, gain), document) in enumerate(zip(ranked, made, strict=True), 1)
    ]


def _without_predictions(units: Sequence[Unit]) -> list[Document]:
    return [unit.as_document([sentence.annotated((), ()) for sentence in unit.sentences]) for unit in units]


def choose_strategy(strategy: str | None, *, has_model: bool) -> str:
    """Return a strategy, or the default one. Raise ConfigError if it is unknown or needs a model that is missing."""
    if strategy is None:
        return "combined" if has_model else "diversity"
    require_choice("strategy", strategy, tuple(STRATEGIES))
    if STRATEGIES[strategy].needs_model and not has_model:
        without = [name for name, kind in STRATEGIES.items() if not kind.needs_model]
        raise ConfigError(
            f"the strategy {strategy} needs a model", f"Give one, or use {' or '.join(without)}", option="model"
        )
    return strategy


def _documents(
    texts: Iterable[str | Document], segmenter: Segmenter | None, progress: Callable[[int], None]
) -> Iterator[Document]:
    for count, text in enumerate(texts, 1):
        if not isinstance(text, str | Document):
            raise DataError(f"text {count} is a {type(text).__name__}", "Give strings or Documents")
        yield text if isinstance(text, Document) else Document.from_text(text, segmenter=segmenter)
        progress(count)


def _new_units(documents: Iterable[Document], settings: UnitSettings, annotated: Sequence[Document]) -> Iterator[Unit]:
    """Yield the units that are neither annotated nor repeated."""
    seen = {sentence_key(sentence.words) for document in annotated for sentence in document.sentences}
    seen |= {sentence_key(word for sentence in document.sentences for word in sentence.words) for document in annotated}
    for position, document in enumerate(documents):
        for unit in settings.split(document, position):
            key = sentence_key(word for sentence in unit.sentences for word in sentence.words)
            if key not in seen:
                seen.add(key)
                yield unit


def _pool(
    units: Iterable[Unit], finder: DecisionFinder | None, strategy: str, size: int, annotated: Sequence[Document]
) -> list[Unit]:
    """Return at most ``size`` units: those of the highest gain if a model finds decisions, else a random sample."""
    first = STRATEGIES[strategy]((), annotated)
    heap: list[tuple[float, int, int, Unit]] = []
    count = 0
    remaining = iter(units)
    while group := list(islice(remaining, _UNITS_AT_ONCE)):
        found = group if finder is None else finder.find(group)
        for unit in found:
            # The number is unique, so that units themselves are never compared.
            count += 1
            entry = (0.0 if finder is None else first.gain(unit), -unit.place, count, unit)
            if len(heap) < size:
                heapq.heappush(heap, entry)
            else:
                heapq.heappushpop(heap, entry)
    return [entry[-1] for entry in sorted(heap, key=lambda entry: entry[2])]


FORMATS = ("jsonl", "label-studio")


class ReadableTexts:
    """Iterable of the documents of all texts that can be read and split. The others are reported and counted."""

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
    """Write units to a file, or to standard output if it is None. A file appears complete or not at all."""
    require_choice("format", format, FORMATS)
    if format == "jsonl":
        parts = [to_json(to_record(one.document) | {"selection": one.to_dict()}) + "\n" for one in selected]
    else:
        tasks = ",\n".join(to_json(to_prediction_task(one, model)) for one in selected)
        parts = [f"[\n{tasks}\n]\n"]
    content = "".join(parts).encode()
    if output is None:
        StreamTarget(sys.stdout.buffer).write(content)
    else:
        with replacing(output) as handle:
            handle.write(content)


def to_prediction_task(selected: Selected, model: str = "") -> dict[str, Any]:
    """Return a unit as a task of Label Studio. The annotations of the model are a prediction, not an annotation.

    A task without annotations would otherwise count as done. Rank and score are in ``data``, where Label Studio shows
    and sorts them as columns.
    """
    task = to_task(selected.document)
    (found,) = task.get("predictions") or task["annotations"]
    predictions = [found | ({"model_version": model} if model else {})] if found["result"] else []
    return {"data": task["data"] | selected.to_dict(), "predictions": predictions}
