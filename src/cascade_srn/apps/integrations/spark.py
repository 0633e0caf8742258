"""Extraction in Apache Spark, with ``DataFrame.mapInPandas``. Needs the extra ``spark``.

Each row keeps its columns and gets three more: ``entities`` and ``relations``, which are arrays of structs, and
``error``. ``explode`` makes the flat tables of a corpus job from them.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cascade_srn.apps.corpus.worker import ENVIRONMENT
from cascade_srn.apps.corpus.writing import normalize
from cascade_srn.config import CONSTRAINTS, check_overlaps, require_choice, require_range
from cascade_srn.errors import ConfigError, describe_error, did_you_mean, require
from cascade_srn.inference.options import ThresholdsLike
from cascade_srn.inference.streaming import BadText
from cascade_srn.types import Document, Span

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.types import StructType

    from cascade_srn.extractor import Extractor

ENTITIES = "array<struct<sentence:int,start:int,end:int,text:string,normalized:string,label:string,score:float>>"
"""Type of the column ``entities``. Offsets are half-open, and count the characters of the text."""
RELATIONS = (
    "array<struct<sentence:int,label:string,score:float,status:string,"
    "head:int,head_start:int,head_end:int,head_text:string,head_label:string,"
    "tail:int,tail_start:int,tail_end:int,tail_text:string,tail_label:string>>"
)
"""Type of the column ``relations``. ``head`` and ``tail`` are zero-based positions in ``entities``."""
COLUMNS = f"entities {ENTITIES}, relations {RELATIONS}, error string"
"""The columns that :func:`extract_partition` adds, as Spark's DDL. ``error`` is null unless extraction failed."""
_NAMES = ("entities", "relations", "error")
_DECIMALS = 6


def output_schema(schema: "StructType") -> "StructType":
    """Return the schema of the output of :func:`extract_partition` for an input with the given schema.

    Raises:
        CascadeError: If pyspark is not installed, or a column of the input has the name of a new one.
    """
    StructType = require("pyspark.sql.types").StructType
    taken = [name for name in _NAMES if name in schema.names]
    if taken:
        raise ConfigError(f"the input has a column {taken[0]!r} already", "Rename it, or drop it")
    return StructType([*schema.fields, *StructType.fromDDL(COLUMNS).fields])


def extract_partition(
    *,
    text: str = "text",
    model: str | os.PathLike[str] | None = None,
    thresholds: ThresholdsLike | None = None,
    overlaps: str | None = None,
    constraints: str | None = None,
    skip: Iterable[str] = (),
    batch_words: int = 4096,
    device: str = "cpu",
    precision: str = "auto",
    threads: int = 1,
) -> "Callable[[Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]":
    """Return a function for ``DataFrame.mapInPandas`` that extracts entities and relations.

    Rows keep their order and all of their columns. A text that is null or cannot be processed has a message in
    ``error``, and nulls in ``entities`` and ``relations``. The model is loaded once in each Python process of Spark.

    Args:
        text: Column of the texts.
        model: A model folder that all executors can read, the name of a bundled model, or a hub id. None: the default
            bundled model.
        thresholds: Minimum scores. See :class:`.Extractor`.
        overlaps: Treatment of entities that share words. See :class:`.Extractor`.
        constraints: Whether to apply the constraints of the schema. See :class:`.Extractor`.
        skip: Parts of the texts to leave out: "references", "code", "tables".
        batch_words: Maximum number of words per batch, padding included.
        device: Device of the model on the executors, such as "cuda".
        precision: Precision of the pretrained encoder. See :class:`.Extractor`.
        threads: CPU threads of each Python process. Spark runs a process for each core of an executor.

    Raises:
        ConfigError: If an argument is wrong.

    Example:
        >>> papers = spark.read.parquet("papers.parquet")  # doctest: +SKIP
        >>> extract = extract_partition(text="abstract")
        >>> found = papers.mapInPandas(extract, schema=output_schema(papers.schema))  # doctest: +SKIP
        >>> found.selectExpr("id", "inline(entities)").write.parquet("entities.parquet")  # doctest: +SKIP
    """
    check_overlaps(overlaps)
    if constraints is not None:
        require_choice("constraints", constraints, CONSTRAINTS, option="constraints")
    require_range("batch_words", batch_words, 1)
    require_range("threads", threads, 1)
    name = None if model is None else os.fspath(model)
    left_out = tuple(skip)
    predicting = {"batch_words": batch_words, "thresholds": thresholds}

    def extract(frames: "Iterator[pd.DataFrame]") -> "Iterator[pd.DataFrame]":
        extractor = _load(name, device, precision, threads, left_out, overlaps=overlaps, constraints=constraints)
        for frame in frames:
            yield _extract_frame(extractor, frame, text, predicting)

    return extract


@lru_cache(maxsize=1)
def _load(
    model: str | None, device: str, precision: str, threads: int, skip: tuple[str, ...], **options: Any
) -> "Extractor":
    """Load a model, which a Python process of Spark remembers for its next partition."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from cascade_srn.extractor import Extractor, find_model
    from cascade_srn.runtime.device import set_threads

    folder = find_model(model)
    set_threads(threads, folder, device, precision)
    return Extractor.from_pretrained(folder, device=device, precision=precision, skip=skip, **options)


def _extract_frame(
    extractor: "Extractor", frame: "pd.DataFrame", column: str, options: dict[str, Any]
) -> "pd.DataFrame":
    """Return a frame with three more columns."""
    import pandas as pd

    if column not in frame.columns:
        raise ConfigError(f"the input has no column {column!r}", did_you_mean(column, map(str, frame.columns)))
    is_null = frame[column].isna().tolist()
    problems = {at: "the text is null" for at, null in enumerate(is_null) if null}
    good = [at for at, null in enumerate(is_null) if not null]
    values = frame[column].tolist()

    def note(bad: BadText) -> None:
        problems[good[bad.position]] = describe_error(bad.error)

    documents = list(extractor.stream([values[at] for at in good], on_error=note, **options))
    at_places = [at for at in good if at not in problems]
    rows = {at: annotations(document) for at, document in zip(at_places, documents, strict=True)}
    columns = {
        "entities": [rows[at][0] if at in rows else None for at in range(len(values))],
        "relations": [rows[at][1] if at in rows else None for at in range(len(values))],
        "error": [problems.get(at) for at in range(len(values))],
    }
    added = pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in columns.items()})
    return pd.concat([frame.reset_index(drop=True), added], axis=1)


def annotations(document: Document) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the entities and relations of a document as rows with the names of :data:`COLUMNS`."""
    entities: list[dict[str, Any]] = []
    relations: list[dict[str, Any]] = []
    sentences = [sentence for sentence in document.sentences if sentence.offsets]
    for number, sentence in enumerate(sentences):
        places: dict[Span, int] = {}
        for span in sentence.entities:
            places[span] = len(entities)
            entities.append(_entity(document.text, number, span, sentence.offsets))
        for triple in sentence.triples:
            relation = {"sentence": number, "label": triple.label, "score": _round(triple.score)}
            relation["status"] = sentence.status(triple)
            for role, span in (("head", triple.head), ("tail", triple.tail)):
                entity = entities[places[span]]
                relation[role] = places[span]
                relation |= {f"{role}_{name}": entity[name] for name in ("start", "end", "text", "label")}
            relations.append(relation)
    return entities, relations


def _entity(text: str, sentence: int, span: Span, offsets: Sequence[tuple[int, int]]) -> dict[str, Any]:
    start, end = offsets[span.start][0], offsets[span.end - 1][1]
    return {
        "sentence": sentence,
        "start": start,
        "end": end,
        "text": text[start:end],
        "normalized": normalize(text[start:end]),
        "label": span.label,
        "score": _round(span.score),
    }


def _round(score: float | None) -> float | None:
    return None if score is None else round(score, _DECIMALS)
