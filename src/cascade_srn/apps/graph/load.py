"""Read extracted documents: folders of corpus jobs, and JSON lines."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cascade_srn.apps.graph.generic import find_antecedents
from cascade_srn.apps.graph.settings import GraphSettings
from cascade_srn.apps.graph.tables import load_library, make_schema
from cascade_srn.errors import DataError, did_you_mean
from cascade_srn.formats.base import ReadContext
from cascade_srn.formats.files import read_json_lines, read_stored_json
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.jsonl import read_document
from cascade_srn.formats.reports import ReadReport
from cascade_srn.storage.files import PACKED, files_below, is_hidden, plain_name
from cascade_srn.types import Document

if TYPE_CHECKING:
    import pyarrow

MANIFEST = "manifest.json"
_BATCH = 1000
# "document" is the number of the document, "antecedent" the entity of the same document that a generic mention stands
# for, "origin" the file and the row that a corpus job has read, to find documents that several jobs have. The status of
# a relation is null in results of older versions.
_COLUMNS = {
    "documents": """
        document_id:string shard:string input:string row:int64 date:string title:string text:string version:string
        origin:string
    """,
    "sentences": "document:int64 sentence:int32 start:int32 end:int32",
    "entities": """
        document:int64 entity:int32 sentence:int32 start:int32 end:int32 text:string label:string score:float
        model:string antecedent:int32
    """,
    "relations": """
        document:int64 relation:int32 sentence:int32 label:string score:float head:int32 tail:int32 model:string
        status:string
    """,
}


@dataclass(frozen=True)
class Extracted:
    """Entities and relations of documents, as Arrow tables.

    Attributes:
        tables: ``documents``, ``sentences``, ``entities`` and ``relations``. Their column ``document`` is the number of
            the document, which counts from 0 in the order of id, shard, input and row. Ids may repeat.
        notes: What the user should know.
    """

    tables: dict[str, pyarrow.Table]
    notes: tuple[str, ...]


def load(corpora: Sequence[str | Path], settings: GraphSettings, *, check_fields: bool = True) -> Extracted:
    """Read the results of extraction.

    Args:
        corpora: Folders of corpus jobs, files of JSON lines, which may be compressed, or folders of those.
        settings: Where dates and titles are.
        check_fields: Refuse documents of which none has a date or title, if there is a field for it.

    Raises:
        DataError: A path does not exist or is not of this kind, a file is damaged, or there is no document.
    """
    notes: list[str] = []
    fields = _Fields(settings)
    jobs, files = find_corpora(corpora)
    collected = _Collector(find_repeats=len(jobs) + len(files) > 1)
    for path, name in _short_names(files).items():
        for part in _read_lines(path, name, fields):
            collected.add(part, path)
    prefixes = _short_names(jobs) if len(jobs) > 1 else dict.fromkeys(jobs, "")
    for folder, prefix in prefixes.items():
        manifest = read_stored_json(folder / MANIFEST, "Run the corpus job again")
        shards = _finished(folder)
        if n_missing := len(manifest.get("shards") or ()) - len(shards):
            notes.append(f"{folder}: {n_missing} of {n_missing + len(shards)} shards are not finished and left out")
        for part in _read_job(folder, shards, prefix, manifest, fields):
            collected.add(part, folder)
    if not collected.n_documents:
        raise DataError("the input has no documents", "Check that the extraction has finished")
    if check_fields:
        fields.check()
    for (path, first), count in collected.repeats.items():
        documents = "1 document is" if count == 1 else f"{count:,} documents are"
        notes.append(f"{path}: {documents} also in {first} and left out here, so that each counts once")
    return Extracted(number_documents(collected.tables())[0], tuple(notes))


def load_files(jobs: Mapping[Path, Collection[str]], settings: GraphSettings) -> Extracted | None:
    """Read the documents of some input files from corpus jobs; None if there are none.

    Their shard is the file, so that it does not depend on the job.

    Args:
        jobs: Names of files by folder of the job.
        settings: Where dates and titles are.
    """
    fields, collected = _Fields(settings), _Collector(find_repeats=False)
    for folder, names in jobs.items():
        manifest = read_stored_json(folder / MANIFEST, "Run the corpus job again")
        for part in _read_job(folder, _finished(folder), "", manifest, fields):
            documents = part["documents"].set_column(1, "shard", part["documents"]["input"])
            collected.add(part | {"documents": documents}, folder, names)
    return Extracted(number_documents(collected.tables())[0], ()) if collected.n_documents else None


def find_corpora(corpora: Sequence[str | Path]) -> tuple[list[Path], list[Path]]:
    """Return the folders of corpus jobs and the files of JSON lines, sorted and without repeats."""
    jobs: dict[str, Path] = {}
    files: dict[str, Path] = {}
    for path in map(Path, corpora):
        if not os.path.exists(path):
            raise DataError(f"{path} does not exist", "Check the path and the working folder")
        if not path.is_dir():
            files[os.path.realpath(path)] = path
        elif (path / MANIFEST).is_file():
            jobs[os.path.realpath(path)] = path
        else:
            found = [file for file in files_below(path, _is_lines) if not is_hidden(file, path)]
            if not found:
                raise DataError(
                    f"{path} contains no results of extraction", "Give the folder of a corpus job, or JSON lines"
                )
            files |= {os.path.realpath(file): file for file in found}
    return [jobs[real] for real in sorted(jobs)], [files[real] for real in sorted(files)]


def _is_lines(path: Path) -> bool:
    return plain_name(path).suffix.lower() == ".jsonl"


def _short_names(paths: Iterable[Path]) -> dict[Path, str]:
    """Return a name for each path: its own, or the whole path where several have the same."""
    found = list(paths)
    names = Counter(path.name for path in found)
    return {path: path.name if names[path.name] == 1 else path.as_posix() for path in found}


def number_documents(tables: dict[str, pyarrow.Table]) -> tuple[dict[str, pyarrow.Table], Any]:
    """Number the documents in the order of their ids, so that the graph does not depend on the order of the input.

    Returns:
        The tables, and the new number of each document.
    """
    np, pa = load_library("numpy"), load_library("pyarrow")
    documents, place = order_documents(tables["documents"])
    found = {"documents": documents}
    for name, table in tables.items():
        if name != "documents":
            moved = place[table["document"].to_numpy()]
            # The second column numbers the rows of a document.
            rows = pa.array(np.lexsort((table.column(1).to_numpy(), moved)))
            found[name] = table.set_column(0, "document", pa.array(moved, pa.int64())).combine_chunks().take(rows)
    return found, place


def order_documents(documents: pyarrow.Table) -> tuple[pyarrow.Table, Any]:
    """Return documents in their order, with their numbers, and the number of each."""
    np, pc, pa = load_library("numpy"), load_library("pyarrow.compute"), load_library("pyarrow")
    order = pc.sort_indices(documents, [(name, "ascending") for name in ("document_id", "shard", "input", "row")])
    place = np.empty(len(order), dtype=np.int64)
    place[order.to_numpy()] = np.arange(len(order))
    return documents.take(order).add_column(0, "document", pa.array(np.arange(len(order)), pa.int64())), place


class _Collector:
    """Tables of several inputs, whose documents are numbered on.

    Attributes:
        n_documents: Number of documents.
        repeats: Number of documents that were left out, by the input that has them again and the first that has them.
    """

    def __init__(self, *, find_repeats: bool) -> None:
        self.n_documents = 0
        self.repeats: Counter[tuple[Path, Path]] = Counter()
        self._find_repeats = find_repeats
        self._first: dict[bytes, Path] = {}
        self._parts: list[dict[str, pyarrow.Table]] = []

    def add(self, part: dict[str, pyarrow.Table], path: Path, files: Collection[str] | None = None) -> None:
        """Add documents of an input, or of some of its files, without those that an input before it has."""
        np, pa = load_library("numpy"), load_library("pyarrow")
        documents = part["documents"]
        is_new = np.ones(documents.num_rows, dtype=bool)
        if files is not None:
            is_new[:] = [name in files for name in documents["input"].to_pylist()]
        if self._find_repeats:
            is_new[:] = [self._is_new(row, path) for row in _rows(documents.select(["document_id", "text", "origin"]))]
        number = self.n_documents + np.cumsum(is_new) - 1
        found = {"documents": documents.drop_columns("origin").filter(pa.array(is_new))}
        for name in ("sentences", "entities", "relations"):
            table = part[name].filter(pa.array(is_new[part[name]["document"].to_numpy()]))
            found[name] = table.set_column(0, "document", pa.array(number[table["document"].to_numpy()], pa.int64()))
        self.n_documents += found["documents"].num_rows
        self._parts.append(found)

    def _is_new(self, row: Mapping[str, Any], path: Path) -> bool:
        """Return whether no input before has the document: the same id and text, or the same row of the same file."""
        keys = [row["origin"]] if row["origin"] else []
        keys += [f"{row['document_id']}\n{row['text']}"] if row["document_id"] and row["text"] is not None else []
        for digest in (hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest() for key in keys):
            first = self._first.setdefault(digest, path)
            if first != path:
                self.repeats[path, first] += 1
                return False
        return True

    def tables(self) -> dict[str, pyarrow.Table]:
        pa = load_library("pyarrow")
        return {name: pa.concat_tables([part[name] for part in self._parts]) for name in _COLUMNS}


class _Fields:
    """Dates and titles of documents."""

    def __init__(self, settings: GraphSettings) -> None:
        self.settings = settings
        self._names = {"date": settings.date_field, "title": settings.title_field}
        self._pattern = re.compile(settings.date_pattern) if settings.date_pattern is not None else None
        self._seen: set[str] = set()
        self._known: set[str] = {"id"}

    def read(self, record: Mapping[str, Any]) -> tuple[str | None, str | None]:
        """Return date and title of a record."""
        self._known.update(record)
        date = self._text(record, "date")
        if date is not None and self._pattern is not None:
            found = self._pattern.search(date)
            date = None if found is None else found[1] if self._pattern.groups else found[0]
        return date, self._text(record, "title")

    def _text(self, record: Mapping[str, Any], kind: str) -> str | None:
        name = self._names[kind]
        value = None if name is None else record.get(name)
        if value is None:
            return None
        self._seen.add(kind)
        return value.strip() or None if isinstance(value, str) else str(value)

    def check(self) -> None:
        """Raise a DataError if no document has a field that was asked for."""
        for kind, name in self._names.items():
            if name is not None and kind not in self._seen:
                hint = did_you_mean(name, self._known)
                raise DataError(f"no document has the field {name!r} for its {kind}", hint, option=f"{kind}_field")


def _read_lines(path: Path, name: str, fields: _Fields) -> Iterator[dict[str, Any]]:
    """Read a file of JSON lines in batches. It has no files that were extracted from, so that it is its own input."""
    records: list[Value] = []

    def read(record: Value, context: ReadContext) -> Document:
        document = read_document(record, context)
        records.append(record)
        return document

    rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in _COLUMNS}
    for number, document in enumerate(read_json_lines(path, ReadContext(report=ReadReport()), read)):
        raw = records.pop().raw
        date, title = fields.read(raw | {"id": document.id})
        model, version = (value if isinstance(value := raw.get(key), str) else None for key in ("model", "version"))
        at = len(rows["documents"])
        rows["documents"].append((document.id, name, name, number, date, title, document.text, version, None))
        resolves = fields.settings.coreference and document.clusters
        antecedents = find_antecedents(document, fields.settings.generic_labels) if resolves else {}
        _add_annotations(rows, document, at, model, antecedents)
        if at == _BATCH - 1:
            yield _to_tables(rows)
            rows = {table: [] for table in _COLUMNS}
    yield _to_tables(rows)


def _add_annotations(
    rows: dict[str, list[tuple[Any, ...]]],
    document: Document,
    at: int,
    model: str | None,
    antecedents: Mapping[int, int],
) -> None:
    index: dict[Any, int] = {}
    relations: list[tuple[Any, ...]] = []
    for number, sentence in enumerate(document.sentences):
        offsets = sentence.offsets
        rows["sentences"].append((at, number, offsets[0][0] if offsets else 0, offsets[-1][1] if offsets else 0))
        for span in sentence.entities:
            start, end = offsets[span.start][0], offsets[span.end - 1][1]
            index[number, span] = entity = len(index)
            text = document.text[start:end]
            row = (at, entity, number, start, end, text, span.label, span.score, model, antecedents.get(entity))
            rows["entities"].append(row)
        for triple in sentence.triples:
            ends = index[number, triple.head], index[number, triple.tail]
            status = sentence.status(triple)
            relations.append((at, len(relations), number, triple.label, triple.score, *ends, model, status))
    rows["relations"] += relations


def _to_tables(rows: Mapping[str, list[tuple[Any, ...]]]) -> dict[str, pyarrow.Table]:
    pa = load_library("pyarrow")
    found = {}
    for name in _COLUMNS:
        schema = make_schema(_COLUMNS[name])
        columns = zip(*rows[name], strict=True) if rows[name] else ((),) * len(schema)
        arrays = [pa.array(list(values), kind) for values, kind in zip(columns, schema.types, strict=True)]
        found[name] = pa.table(arrays, schema=schema)
    return found


def _finished(folder: Path) -> list[str]:
    """Return the ids of the shards that are finished."""
    return sorted(path.stem for path in (folder / "shards").glob("*.json") if not path.name.startswith((".", "_")))


def _read_job(
    folder: Path, shards: Sequence[str], prefix: str, manifest: Mapping[str, Any], fields: _Fields
) -> Iterator[dict[str, pyarrow.Table]]:
    """Read the finished shards of a corpus job, as tables or JSON lines."""
    if not shards:
        return
    names = [f"{prefix}/{shard}" if prefix else shard for shard in shards]
    if (folder / "documents" / f"{shards[0]}.parquet").exists():
        yield _read_tables(folder, shards, prefix, manifest, fields)
        return
    for shard, name in zip(shards, names, strict=True):
        for suffix in ("", *PACKED):
            path = folder / "documents" / f"{shard}.jsonl{suffix}"
            if path.exists():
                yield from _read_lines(path, name, fields)
                break
        else:
            raise _incomplete(folder / "documents" / shard)


def _read_tables(
    folder: Path, shards: Sequence[str], prefix: str, manifest: Mapping[str, Any], fields: _Fields
) -> dict[str, pyarrow.Table]:
    pa, pc = load_library("pyarrow"), load_library("pyarrow.compute")
    documents = _read_table(folder, "documents", shards)
    small = documents.drop_columns([name for name in ("text", "sentences") if name in documents.column_names])
    found = [fields.read(record | {"id": record["document_id"]}) for record in _rows(small)]
    place = ["document_id", "shard", "row"]
    places = documents.select(place).append_column("document", pa.array(range(len(found)), pa.int64()))
    tables = {
        "documents": documents.select([*place, "input", "text"])
        .append_column("date", pa.array([date for date, _ in found], pa.string()))
        .append_column("title", pa.array([title for _, title in found], pa.string()))
        .append_column("version", pa.array([_find_version(manifest)] * len(found), pa.string()))
        .append_column("origin", pa.array(_find_origins(documents, manifest), pa.string())),
        "sentences": _flatten_sentences(documents["sentences"]),
        "entities": _read_table(folder, "entities", shards).join(places, keys=place, join_type="inner"),
        "relations": _read_table(folder, "relations", shards).join(places, keys=place, join_type="inner"),
    }
    # Corpus jobs write no coreference clusters.
    nothing = pa.nulls(tables["entities"].num_rows, pa.int32())
    tables["entities"] = tables["entities"].append_column("antecedent", nothing)
    tables["relations"] = with_status(tables["relations"])
    if prefix:
        named = pc.binary_join_element_wise(pa.scalar(prefix), tables["documents"]["shard"], "/")
        tables["documents"] = tables["documents"].set_column(1, "shard", named)
    schemas = {name: make_schema(_COLUMNS[name]) for name in tables}
    return {name: table.select(schemas[name].names).cast(schemas[name]) for name, table in tables.items()}


def with_status(relations: pyarrow.Table) -> pyarrow.Table:
    """Return a table of relations with a status, which those of older versions do not have."""
    if "status" in relations.column_names:
        return relations
    pa = load_library("pyarrow")
    return relations.append_column("status", pa.nulls(relations.num_rows, pa.string()))


def _read_table(folder: Path, table: str, shards: Sequence[str]) -> pyarrow.Table:
    pa, parquet = load_library("pyarrow"), load_library("pyarrow.parquet")
    found = []
    for shard in shards:
        path = folder / table / f"{shard}.parquet"
        try:
            # Not as a dataset, which would add columns that it reads from the path.
            found.append(parquet.ParquetFile(path).read())
        except FileNotFoundError:
            raise _incomplete(path) from None
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"{path} is damaged ({error})", "Verify the folder of the corpus job") from error
    try:
        return pa.concat_tables(found, promote_options="default")
    except pa.ArrowException as error:
        raise DataError(f"the columns of {folder / table} differ ({error})", "Run the corpus job again") from error


def _incomplete(path: Path) -> DataError:
    return DataError(f"{path} is missing, though its shard is finished", "Verify the folder of the corpus job")


def _rows(table: pyarrow.Table) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()


def _flatten_sentences(lists: pyarrow.ChunkedArray) -> pyarrow.Table:
    """Turn lists of offsets into a row per sentence."""
    np, pa, pc = load_library("numpy"), load_library("pyarrow"), load_library("pyarrow.compute")
    parents = pc.list_parent_indices(lists).to_numpy().astype(np.int64)
    pieces = pc.list_flatten(lists)
    lengths = np.nan_to_num(pc.list_value_length(lists).to_numpy()).astype(np.int64)
    numbers = np.arange(len(parents)) - (np.cumsum(lengths) - lengths)[parents]
    starts, ends = pc.struct_field(pieces, "start"), pc.struct_field(pieces, "end")
    return pa.table([parents, numbers, starts, ends], names=["document", "sentence", "start", "end"])


def _find_origins(documents: pyarrow.Table, manifest: Mapping[str, Any]) -> list[str | None]:
    """Return checksum, address and row of the input of each document; None if the manifest does not have its file."""
    files = {file["name"]: f"{file['sha256']}\n{file['address']}" for file in manifest.get("inputs") or ()}
    places = zip(documents["input"].to_pylist(), documents["row"].to_pylist(), strict=True)
    return [f"{files[name]}\n{row}" if name in files else None for name, row in places]


def _find_version(manifest: Mapping[str, Any]) -> str | None:
    """Return the version of the package that a manifest names."""
    found: str | None = manifest.get("software", {}).get("cascade-srn")
    return found
