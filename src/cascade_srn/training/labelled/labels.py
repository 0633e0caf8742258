"""Labelled text in memory: a few arrays, and a string for each sentence."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cascade_srn.errors import CascadeError, DataError
from cascade_srn.network.examples import Example
from cascade_srn.network.targets import SoftLabels, SoftTable
from cascade_srn.schema import Schema
from cascade_srn.storage.files import checksum
from cascade_srn.training.labelled.shards import RECORD, TABLES, Arrays, ShardFiles, read_record
from cascade_srn.types import Sentence, Span, Triple


class LabelledText:
    """All labels of a folder. Labelled sentences are numbered from 0.

    Attributes:
        certainty: Distance between threshold and the closest score, by turn. Shape: (n_labelled, 3).
        n_words: Number of words of each labelled sentence. Shape: (n_labelled,).
        tables: Probabilities of all sentences.
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder)
        self.record = read_record(self.path)
        if not self.record.get("finished"):
            raise DataError(f"the labels in {str(folder)!r} are not finished", "Resume distil", option="resume")
        self.sha256 = checksum(self.path / RECORD)
        try:
            self.schema = Schema.from_dict(self.record["schema"])
            self.joint = bool(self.record["joint"])
            arrays, self._texts = _read_shards(self.path, self.record["shards"], self.schema)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, CascadeError):
                raise
            raise DataError(
                f"the labels in {str(folder)!r} are not complete ({type(error).__name__}: {error})",
                "Label the text again",
            ) from error
        self._at = np.flatnonzero(arrays["labelled"])
        self.n_words: NDArray[np.int32] = arrays["words"][self._at]
        self._begin, self._end = _document_bounds(arrays["document"])
        self._entities, self._relations = arrays["entities"], arrays["relations"]
        self._first_entity = _row_starts(arrays["entity_counts"])
        self._first_relation = _row_starts(arrays["relation_counts"])
        self.certainty: NDArray[np.float16] = arrays["certainty"]
        self._first_query = _row_starts(arrays["queries"])
        self.tables = {
            name: SoftTable(
                arrays[f"{name}.position"], arrays[f"{name}.probability"], _row_starts(arrays[f"{name}.counts"])
            )
            for name in TABLES
        }

    def __len__(self) -> int:
        return len(self._at)

    def texts(self) -> Iterator[str]:
        """Yield the labelled sentences, words joined by spaces."""
        return (self._texts[at] for at in self._at)

    def sentence(self, number: int) -> Sentence:
        """Return a labelled sentence with the decisions of the teachers."""
        types, names = self.schema.entity_types, self.schema.relation_types
        spans = self._entities[self._first_entity[number] : self._first_entity[number + 1]].tolist()
        entities = [Span(start, end, types[label]) for start, end, label in spans]
        found = self._relations[self._first_relation[number] : self._first_relation[number + 1]].tolist()
        triples = [Triple(entities[head], names[label], entities[tail]) for head, label, tail in found]
        return Sentence.from_words(self._texts[self._at[number]].split(" "), entities, triples)

    def example(self, number: int, *, context_words: int = 0, weight: float = 1.0, soft: bool = True) -> Example:
        """Return a sentence to learn from, with its probabilities or (``soft=False``) its decisions as gold."""
        left, right = self._context(int(self._at[number]), context_words)
        labels = self.soft(number) if soft else None
        return Example(self.sentence(number), left, right, weight, labels)

    def _context(self, at: int, n_words: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the words of the same document before and after a sentence."""
        if n_words == 0:
            return (), ()
        left: list[str] = []
        for before in range(at - 1, int(self._begin[at]) - 1, -1):
            left = [*self._texts[before].split(" "), *left]
            if len(left) >= n_words:
                break
        right: list[str] = []
        for after in range(at + 1, int(self._end[at])):
            right += self._texts[after].split(" ")
            if len(right) >= n_words:
                break
        return tuple(left[max(0, len(left) - n_words) :]), tuple(right[:n_words])

    def soft(self, number: int) -> SoftLabels:
        """Return the probabilities of a labelled sentence."""
        first, end = self._first_query[number : number + 2].tolist()
        return SoftLabels(self.tables, number, first, end - first)

    def soften(self, temperature: float) -> None:
        """Divide the logits of all probabilities by a temperature. Missing positions stay at zero."""
        if temperature == 1:
            return
        for name, table in self.tables.items():
            p = np.clip(table.probability.astype(np.float32), 1e-6, 1 - 1e-6)
            odds = np.exp((np.log(p) - np.log1p(-p)) / temperature)
            self.tables[name] = SoftTable(table.position, (odds / (1 + odds)).astype(np.float16), table.first)


def _read_shards(folder: Path, shards: Sequence[Mapping[str, str]], schema: Schema) -> tuple[Arrays, list[str]]:
    """Return all shards as arrays, and the texts of their sentences. The checksum of each file is verified."""
    texts: list[str] = []
    parts: list[Arrays] = []
    for number, expected in enumerate(shards):
        files = ShardFiles.of(folder, number)
        for path, known in ((files.sentences, expected["sentences"]), (files.arrays, expected["arrays"])):
            if not path.is_file() or checksum(path) != known:
                state = "was changed" if path.is_file() else "is missing"
                raise DataError(
                    f"the file {str(path)!r} of the labels {state}", "Copy the folder again, or label the text again"
                )
        records, arrays = files.read()
        texts += [record["text"] for record in records]
        parts.append({**arrays, **_to_arrays(records, schema)})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}, texts


def _to_arrays(records: Sequence[Mapping[str, Any]], schema: Schema) -> Arrays:
    """Return sentences as arrays, because Python objects would take ten times the memory."""
    types = {label: number for number, label in enumerate(schema.entity_types)}
    names = {label: number for number, label in enumerate(schema.relation_types)}
    labelled = [record for record in records if "entities" in record]
    entities = [(start, end, types[label]) for r in labelled for start, end, label, _ in r["entities"]]
    relations = [(head, names[label], tail) for r in labelled for head, label, tail, _ in r["relations"]]
    return {
        "document": np.array([record["document"] for record in records], dtype=np.int64),
        "words": np.array([record["text"].count(" ") + 1 for record in records], dtype=np.int32),
        "labelled": np.array(["entities" in record for record in records], dtype=np.bool_),
        "entities": np.array(entities, dtype=np.int16).reshape(-1, 3),
        "relations": np.array(relations, dtype=np.int16).reshape(-1, 3),
        "entity_counts": np.array([len(record["entities"]) for record in labelled], dtype=np.int64),
        "relation_counts": np.array([len(record["relations"]) for record in labelled], dtype=np.int64),
    }


def _row_starts(counts: NDArray[Any]) -> NDArray[np.int64]:
    """Return the offset of each row, and the end of the last one."""
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)))


def _document_bounds(document: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, for each sentence, the first sentence of its document and the first one after the document."""
    begins = np.diff(document, prepend=-1) != 0
    starts = np.flatnonzero(begins)
    which = np.cumsum(begins) - 1
    return starts[which], np.append(starts[1:], len(document))[which]
