"""Tables of one shard: collected in memory, written to temporary files, and renamed."""

import hashlib
import json
import math
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cascade_srn.apps.corpus.engine import JobError
from cascade_srn.apps.corpus.manifest import RECORDS, record_text
from cascade_srn.apps.corpus.settings import JobSpec
from cascade_srn.apps.corpus.shards import InputRow, ShardResult
from cascade_srn.apps.corpus.tables import TABLES, column_names, table_schema
from cascade_srn.formats.jsonl import to_record
from cascade_srn.storage.atomic import replace_durably
from cascade_srn.text.forms import model_form
from cascade_srn.types import Document, Sentence, Span, Triple

if TYPE_CHECKING:
    import pyarrow

_DECIMALS = 6
# Reasons are for people. A library may put a whole text into its message.
_MAX_REASON = 500


def normalize(text: str) -> str:
    """Return the text of an entity in lower case and natural characters, with single spaces.

    Example:
        >>> normalize("Named\\nEntity  Recog\u00adnition")
        'named entity recognition'
    """
    return " ".join(model_form(text).split()).lower()


class ShardTables:
    """Rows of one shard.

    Args:
        job: The job.
        shard: Id of the shard.
    """

    def __init__(self, job: JobSpec, shard: str) -> None:
        self.job = job
        self.shard = shard
        self.n_words = self.n_sentences = 0
        self._columns: dict[str, dict[str, list[Any]]] = {
            table: {name: [] for name in column_names(table)} for table in TABLES
        }
        self._columns["documents"] |= {name: [] for name in job.kept}
        self._rows = dict.fromkeys(TABLES, 0)
        self._lines: list[str] = []
        self._is_jsonl = job.settings.format == "jsonl"

    def add_document(self, row: InputRow, sentences: Sequence[Sentence]) -> None:
        """Add the document of a row, with the sentences that a model annotated."""
        text = row.text
        assert text is not None
        n_words = sum(map(len, sentences))
        n_entities = sum(len(sentence.entities) for sentence in sentences)
        n_relations = sum(len(sentence.triples) for sentence in sentences)
        self.n_words += n_words
        self.n_sentences += len(sentences)
        self._rows["documents"] += 1
        self._rows["entities"] += n_entities
        self._rows["relations"] += n_relations
        if self._is_jsonl:
            self._lines.append(_to_line(row, text, sentences))
            return
        values = {
            "input": row.input,
            "text": text if self.job.settings.store_text else None,
            "sentences": [_bounds(sentence) for sentence in _with_words(sentences)],
            "n_words": n_words,
            "n_entities": n_entities,
            "n_relations": n_relations,
            **{name: row.kept.get(name) for name in self.job.kept},
        }
        self._add("documents", row, values)
        if n_entities:
            self._add_annotations(row, text, sentences)

    def _add_annotations(self, row: InputRow, text: str, sentences: Sequence[Sentence]) -> None:
        n_entities = n_relations = 0
        for number, sentence in enumerate(_with_words(sentences)):
            found: dict[Span, tuple[int, int, int, str]] = {}
            for span in sentence.entities:
                start, end = sentence.offsets[span.start][0], sentence.offsets[span.end - 1][1]
                found[span] = n_entities, start, end, text[start:end]
                self._add_entity(row, number, span, found[span])
                n_entities += 1
            for triple in sentence.triples:
                places = found[triple.head], found[triple.tail]
                self._add_relation(row, number, n_relations, triple, *places, sentence.status(triple))
                n_relations += 1

    def _add_entity(self, row: InputRow, number: int, span: Span, place: tuple[int, int, int, str]) -> None:
        entity, start, end, surface = place
        values = {
            "entity": entity,
            "sentence": number,
            "start": start,
            "end": end,
            "text": surface,
            "normalized": normalize(surface),
            "label": span.label,
            "score": _round(span.score),
        }
        self._add("entities", row, values)

    def _add_relation(
        self,
        row: InputRow,
        number: int,
        relation: int,
        triple: Triple,
        head: tuple[int, int, int, str],
        tail: tuple[int, int, int, str],
        status: str,
    ) -> None:
        values = {
            "relation": relation,
            "sentence": number,
            "label": triple.label,
            "score": _round(triple.score),
            "head": head[0],
            "head_start": head[1],
            "head_end": head[2],
            "head_text": head[3],
            "head_label": triple.head.label,
            "tail": tail[0],
            "tail_start": tail[1],
            "tail_end": tail[2],
            "tail_text": tail[3],
            "tail_label": triple.tail.label,
            "status": status,
        }
        self._add("relations", row, values)

    def add_error(self, row: InputRow, reason: str, attempts: int = 1) -> None:
        """Add a row that could not be processed."""
        reason = " ".join(reason.split())
        shown = reason if len(reason) <= _MAX_REASON else f"{reason[:_MAX_REASON]}…"
        self._rows["errors"] += 1
        self._add("errors", row, {"input": row.input, "reason": shown, "attempts": attempts})

    def _add(self, table: str, row: InputRow, values: Mapping[str, Any]) -> None:
        columns = self._columns[table]
        columns["document_id"].append(row.id)
        columns["row"].append(row.row)
        for name, value in values.items():
            columns[name].append(value)

    def encode(self) -> dict[str, bytes]:
        """Return the content of each file by its name, relative to the output folder."""
        if self._is_jsonl:
            columns = self._columns["errors"]
            columns["shard"] = [self.shard] * self._rows["errors"]
            errors = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
            return {
                f"documents/{self.shard}.jsonl": "".join(self._lines).encode("utf-8", "replace"),
                f"errors/{self.shard}.jsonl": "".join(map(_to_json_line, errors)).encode("utf-8", "replace"),
            }
        return {f"{table}/{self.shard}.parquet": self._encode_table(table) for table in TABLES}

    def _encode_table(self, table: str) -> bytes:
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = table_schema(table, dict(self.job.kept))
        columns, n_rows = self._columns[table], self._rows[table]
        for name, value in (("shard", self.shard), ("model", self.job.model_checksum)):
            if name in columns:
                columns[name] = [value] * n_rows
        arrays = [_to_array(columns[field.name], field.type) for field in schema]
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_arrays(arrays, schema=schema), sink, compression="zstd")
        data: bytes = sink.getvalue().to_pybytes()
        return data

    def write(self, seconds: float, attempts: int) -> ShardResult:
        """Write the files and then the record of the shard. Each file appears complete, or not at all.

        Raises:
            JobError: If the files cannot be written, for example because the disk is full.
        """
        files = self.encode()
        result = ShardResult(
            shard=self.shard,
            rows=dict(self._rows),
            sha256={name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
            n_words=self.n_words,
            n_sentences=self.n_sentences,
            seconds=round(seconds, 3),
            attempts=attempts,
        )
        files[f"{RECORDS}/{self.shard}.json"] = record_text(result).encode()
        folder = self.job.scratch_path / f"{self.shard}-{secrets.token_hex(4)}"
        try:
            _write_and_rename(files, folder, self.job.output_path)
        except OSError as error:
            raise JobError(
                f"the output folder {self.job.output!r} cannot be written ({error.strerror or error})",
                "Fix that, and resume the job",
                option="resume",
            ) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return result


def _write_and_rename(files: Mapping[str, bytes], folder: Path, output: Path) -> None:
    """Write all files before the first is renamed. The record is the last."""
    folder.mkdir()
    for number, data in enumerate(files.values()):
        (folder / str(number)).write_bytes(data)
    for number, name in enumerate(files):
        replace_durably(folder / str(number), output / name)


def _with_words(sentences: Sequence[Sentence]) -> list[Sentence]:
    return [sentence for sentence in sentences if sentence.offsets]


def _bounds(sentence: Sentence) -> dict[str, int]:
    return {"start": sentence.offsets[0][0], "end": sentence.offsets[-1][1]}


def _round(score: float | None) -> float | None:
    return None if score is None else round(score, _DECIMALS)


def _to_array(values: list[Any], kind: "pyarrow.DataType") -> "pyarrow.Array":
    """Convert a column. Half a surrogate pair, which JSON may contain but UTF-8 may not, becomes a question mark."""
    import pyarrow as pa

    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return pa.array([_encodable(value) for value in values], kind)


def _encodable(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _to_line(row: InputRow, text: str, sentences: Sequence[Sentence]) -> str:
    """Return the line of a document in the JSON lines of this package, with the columns that are carried along."""
    rounded = [
        sentence.annotated(
            [replace(span, score=_round(span.score)) for span in sentence.entities],
            [replace(triple, score=_round(triple.score)) for triple in sentence.triples],
        )
        for sentence in sentences
    ]
    kept = {name: None if _is_not_finite(value) else value for name, value in row.kept.items()}
    return _to_json_line({**to_record(Document(text, tuple(rounded), row.id)), **kept})


def _is_not_finite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _to_json_line(values: Mapping[str, Any]) -> str:
    # Columns of Parquet files can hold values that JSON does not have, such as dates.
    return json.dumps(values, ensure_ascii=False, default=str) + "\n"
