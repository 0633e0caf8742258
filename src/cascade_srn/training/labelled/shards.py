"""The files of labelled text: their description, sentences as JSON lines, and probabilities as flat arrays."""

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

from cascade_srn.errors import DataError
from cascade_srn.formats.files import replacing, to_json
from cascade_srn.network.examples import Example, contexts
from cascade_srn.network.targets import KINDS, TURNS
from cascade_srn.storage.files import checksum
from cascade_srn.types import Sentence

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
        if not self.is_there or not self.sums.is_file():
            return False
        return self.sums.read_bytes() == self._format_sums()

    def compute_checksums(self) -> dict[str, str]:
        """Return the checksums of the files."""
        return {"sentences": checksum(self.sentences), "arrays": checksum(self.arrays)}

    def checksums(self) -> dict[str, str]:
        """Return the checksums recorded when the shard was written, or else those of the files."""
        if not self.sums.is_file():
            return self.compute_checksums()
        names = {self.sentences.name: "sentences", self.arrays.name: "arrays"}
        lines = (line.split(maxsplit=1) for line in self.sums.read_text(encoding="utf-8").splitlines())
        return {names[name]: known for known, name in lines}

    def _format_sums(self) -> bytes:
        return "".join(f"{checksum(path)}  {path.name}\n" for path in (self.sentences, self.arrays)).encode()

    def write(self, documents: Sequence[SelectedDocument], sentences: Sequence[Sentence], arrays: Arrays) -> None:
        """Write a shard. The file with the checksums is written last; without it the shard is labelled again."""
        self.sums.unlink(missing_ok=True)
        with replacing(self.arrays) as handle:
            handle.write(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
        with replacing(self.sentences) as handle:
            for record in _make_records(documents, sentences):
                handle.write(to_json(record).encode() + b"\n")
        with replacing(self.sums) as handle:
            handle.write(self._format_sums())

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
