"""Text labelled by teachers: its files, and its sentences and probabilities in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from cascade_srn.errors import CascadeError, DataError
from cascade_srn.formats.files import replacing, to_json
from cascade_srn.network.examples import Example, contexts
from cascade_srn.network.targets import KINDS, TURNS, SoftLabels, SoftTable
from cascade_srn.schema import Schema
from cascade_srn.storage.files import checksum
from cascade_srn.types import Sentence, Span, Triple

RECORD = "labels.json"
FORMAT_VERSION = 1
TABLES = tuple(f"{turn}.{kind}" for turn in TURNS for kind in KINDS)
# Arrays of a table: flat positions, their probabilities, and the number of positions of each row.
PARTS = {"position": np.int32, "probability": np.float16, "counts": np.int32}

_NAME = re.compile(r"shard-\d{5,}\.(jsonl|safetensors|sha256)")

Arrays = dict[str, NDArray[Any]]


def read_record(folder: Path) -> dict[str, Any]:
    """Read ``labels.json``: what the labels were made with, and whether they are finished."""
    path = folder / RECORD
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        version = record["format_version"]
    except FileNotFoundError:
        raise DataError(
            f"there are no labels in {str(folder)!r}: {RECORD} is missing",
            "Give a folder that cascade-srn distil wrote labels to",
        ) from None
    except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
        raise DataError(
            f"{str(path)!r} does not describe labels ({type(error).__name__}: {error})", "Label the text again"
        ) from error
    if version != FORMAT_VERSION:
        raise DataError(
            f"the labels in {str(folder)!r} have format version {version}, but this release reads {FORMAT_VERSION}",
            "Use the release that wrote them, or label the text again",
        )
    return dict(record)


@dataclass
class SelectedDocument:
    """Document as sentences of words joined by spaces, and which sentences are to be labelled."""

    number: int
    sentences: list[str]
    chosen: list[bool]

    @property
    def n_chosen(self) -> int:
        """Number of sentences to label."""
        return sum(self.chosen)

    def examples(self, context_words: int) -> Iterator[Example]:
        """Yield the sentences to label with up to ``context_words`` words of the document on each side."""
        words = [sentence.split(" ") for sentence in self.sentences]
        for own, chosen, (left, right) in zip(words, self.chosen, contexts(words, context_words), strict=True):
            if chosen:
                yield Example(Sentence.from_words(own), left, right)


@dataclass(frozen=True)
class ShardFiles:
    """The two files of a shard and, until all labels are finished, a file with their checksums.

    The third file has the format of ``sha256sum`` and is written last. ``labels.json`` has its content in the end.
    """

    sentences: Path
    arrays: Path

    @property
    def sums(self) -> Path:
        """Path of the file with the checksums of the other two."""
        return self.sentences.with_suffix(".sha256")

    @classmethod
    def of(cls, folder: Path, number: int) -> ShardFiles:
        """Return the files of a shard by its number."""
        return cls(folder / f"shard-{number:05d}.jsonl", folder / f"shard-{number:05d}.safetensors")

    @staticmethod
    def is_shard_file(path: Path) -> bool:
        """Return whether a path has the name of a file of a shard."""
        return _NAME.fullmatch(path.name) is not None

    @property
    def is_there(self) -> bool:
        """Whether both files exist."""
        return self.sentences.is_file() and self.arrays.is_file()

    def is_whole(self) -> bool:
        """Return whether the shard is complete and unchanged. Both files are read."""
        return self.is_there and self.sums.is_file() and self.checksums() == self.compute_checksums()

    def compute_checksums(self) -> dict[str, str]:
        """Return the checksums of the files."""
        return {"sentences": checksum(self.sentences), "arrays": checksum(self.arrays)}

    def checksums(self) -> dict[str, str]:
        """Return the checksums recorded when the shard was written, or else those of the files."""
        if not self.sums.is_file():
            return self.compute_checksums()
        lines = (line.partition("  ") for line in self.sums.read_text(encoding="utf-8").splitlines())
        kinds = {self.sentences.name: "sentences", self.arrays.name: "arrays"}
        return {kinds.get(name, name): known for known, _, name in lines}

    def write(self, documents: Sequence[SelectedDocument], sentences: Sequence[Sentence], arrays: Arrays) -> None:
        """Write a shard. The file with the checksums is written last; without it the shard is labelled again."""
        self.sums.unlink(missing_ok=True)
        with replacing(self.arrays) as handle:
            handle.write(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
        with replacing(self.sentences) as handle:
            for record in _make_records(documents, sentences):
                handle.write(to_json(record).encode() + b"\n")
        with replacing(self.sums) as handle:
            lines = (f"{known}  {getattr(self, kind).name}\n" for kind, known in self.compute_checksums().items())
            handle.write("".join(lines).encode())

    def read(self) -> tuple[list[dict[str, Any]], Arrays]:
        """Return the records of the sentences, and the arrays."""
        try:
            lines = self.sentences.read_text(encoding="utf-8").rstrip("\n")
            # Parsed as one list, which is several times faster than line by line.
            return json.loads(f"[{lines.replace(chr(10), ',')}]"), load_file(self.arrays)
        except (OSError, ValueError, SafetensorError, RecursionError) as error:
            raise DataError(
                f"the labels in {str(self.sentences)!r} and {self.arrays.name!r} cannot be read ({error})",
                "Label the text again",
            ) from error


def _make_records(documents: Iterable[SelectedDocument], sentences: Iterable[Sentence]) -> Iterator[dict[str, Any]]:
    """Yield a JSON object for each sentence; sentences without labels have no field ``entities``."""
    labelled = iter(sentences)
    for document in documents:
        for text, chosen in zip(document.sentences, document.chosen, strict=True):
            record: dict[str, Any] = {"document": document.number, "text": text}
            yield record | _to_annotations(next(labelled)) if chosen else record


def _to_annotations(sentence: Sentence) -> dict[str, Any]:
    at = {span: number for number, span in enumerate(sentence.entities)}
    return {
        "entities": [[e.start, e.end, e.label, _round(e.score)] for e in sentence.entities],
        "relations": [[at[t.head], t.label, at[t.tail], _round(t.score)] for t in sentence.triples],
    }


def _round(score: float | None) -> float | None:
    return None if score is None else round(score, 4)


class ShardArrays:
    """Collect the arrays of batches, and put them into the order of the sentences of a shard."""

    def __init__(self, n_sentences: int) -> None:
        self.n_queries = np.zeros(n_sentences, dtype=np.int32)
        self.certainty = np.zeros((n_sentences, 3), dtype=np.float16)
        self._parts: dict[str, list[tuple[NDArray[np.int64], Any]]] = {name: [] for name in TABLES}

    def add(
        self,
        members: Sequence[int],
        n_queries: NDArray[np.int32],
        certainty: NDArray[np.float16],
        tables: Mapping[str, Any],
    ) -> None:
        """Add a batch of sentences of the shard, with the number of queries and the certainty of each.

        Shapes: n_queries (n_members,), certainty (n_members, 3)
        """
        sentences = np.asarray(members, dtype=np.int64)
        self.n_queries[sentences], self.certainty[sentences] = n_queries, certainty
        # Rows of turn 3 are queries, identified by the sentence and the number of the query in it.
        first = np.cumsum(n_queries) - n_queries
        of_query = np.repeat(np.arange(len(members)), n_queries)
        within = np.arange(len(of_query)) - first[of_query]
        rows = np.stack((sentences, np.zeros_like(sentences))), np.stack((sentences[of_query], within))
        for name, entries in tables.items():
            self._parts[name].append((rows[name.startswith("object")][:, entries.row], entries))

    def arrays(self) -> Arrays:
        """Return all arrays by their names in the file."""
        found: Arrays = {"queries": self.n_queries, "certainty": self.certainty}
        first_query = np.cumsum(self.n_queries) - self.n_queries
        for name, parts in self._parts.items():
            by_query = name.startswith("object")
            sentence, within = np.concatenate([np.zeros((2, 0), dtype=np.int64), *(rows for rows, _ in parts)], axis=1)
            row = first_query[sentence] + within if by_query else sentence
            order = np.argsort(row, kind="stable")
            n_rows = int(self.n_queries.sum()) if by_query else len(self.n_queries)
            found[f"{name}.counts"] = np.bincount(row, minlength=n_rows).astype(np.int32)
            for part in ("position", "probability"):
                values = [np.zeros(0, dtype=PARTS[part]), *(getattr(entries, part) for _, entries in parts)]
                found[f"{name}.{part}"] = np.concatenate(values)[order]
        return found


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
