"""Build a graph from extracted documents."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cascade_srn.apps.graph.edges import (
    QUERIES,
    count_rows,
    count_votes,
    flag_edges,
    make_edges,
    name_nodes,
    place_mentions,
    quote_sentences,
    winner,
)
from cascade_srn.apps.graph.load import Extracted, load
from cascade_srn.apps.graph.resolve import Resolution, Surface, describe_forms, resolve
from cascade_srn.apps.graph.settings import ACYCLIC, SYMMETRIC, GraphReport, GraphSettings
from cascade_srn.apps.graph.sources import Sources, absolute_files
from cascade_srn.apps.graph.store import check_target, write_graph
from cascade_srn.apps.graph.tables import STEPS, load_library, make_schema, table_schema
from cascade_srn.errors import DataError, suggest
from cascade_srn.formats.files import read_stored_json
from cascade_srn.formats.schema_file import read_schema
from cascade_srn.schema import Schema
from cascade_srn.version import __version__

if TYPE_CHECKING:
    import duckdb
    import pyarrow


def build(
    corpora: str | Path | Sequence[str | Path],
    output: str | Path,
    settings: GraphSettings | None = None,
    *,
    overwrite: bool = False,
) -> GraphReport:
    """Build a graph and write it to a folder.

    The same documents give the same graph, in whatever order they come.

    Args:
        corpora: Folders of corpus jobs, files of extracted JSON lines, or folders of those.
        output: A new or empty folder.
        settings: The steps of the resolution, and what to leave out.
        overwrite: Replace a graph in the folder.

    Raises:
        DataError: The input cannot be read, or the folder has other files.

    Example:
        >>> report = build("results.jsonl", "graph", GraphSettings(min_score=0.5))  # doctest: +SKIP
        >>> report.counts["nodes"]  # doctest: +SKIP
        24010
    """
    settings = settings or GraphSettings()
    check_target(output, overwrite=overwrite)
    given = [corpora] if isinstance(corpora, str | Path) else list(corpora)
    return build_from(Sources(load(given, settings), absolute_files(settings)), output, overwrite=overwrite)


def build_from(sources: Sources, output: str | Path, *, overwrite: bool = False) -> GraphReport:
    """Build a graph from loaded documents and write it to a folder, together with these."""
    connection = load_library("duckdb").connect()
    try:
        tables, record, report = _make_tables(connection, sources.extracted, sources.settings)
    finally:
        connection.close()
    write_graph(output, tables, record, overwrite=overwrite, add=sources.write)
    counts = {name: table.num_rows for name, table in tables.items()}
    return GraphReport(str(output), counts, **report)


@dataclass(frozen=True)
class _Named:
    """Nodes by root: id, name, label and votes."""

    ids: dict[int, str]
    names: dict[int, str]
    labels: dict[int, str]
    votes: dict[int, dict[str, float]]


def _make_tables(
    connection: duckdb.DuckDBPyConnection, extracted: Extracted, settings: GraphSettings
) -> tuple[dict[str, pyarrow.Table], dict[str, Any], dict[str, Any]]:
    pa = load_library("pyarrow")
    for name, table in extracted.tables.items():
        connection.register(name, table)
    surfaces = collect_surfaces(extracted)
    found = resolve(surfaces, partial(iterate_texts, extracted), settings)
    _register_keys(connection, surfaces, found)
    place_mentions(connection)
    named = _name(connection, found)
    _create_nodes(connection, named)
    symmetric, acyclic, notes = _relation_kinds(extracted, settings)
    n_entities = extracted.tables["entities"].num_rows
    dropped = {"generic mentions": n_entities - count_rows(connection, "placed")}
    dropped |= make_edges(connection, symmetric=symmetric, min_score=settings.min_score, min_count=settings.min_count)
    quote_sentences(connection)
    flags = flag_edges(connection, acyclic)
    tables = {name: connection.sql(query).to_arrow_table() for name, query in QUERIES.items()}
    rows = sorted(set(_merge_rows(surfaces, found, named)), key=lambda row: (row[0], STEPS.index(row[5]), *row[1:]))
    columns = list(zip(*rows, strict=True)) or [()] * len(table_schema("merges"))
    tables["merges"] = pa.table([pa.array(list(column)) for column in columns], names=table_schema("merges").names)
    steps = Counter(row[5] for row in rows)
    report = {
        "dropped": {reason: count for reason, count in dropped.items() if count},
        "merges": {step: steps[step] for step in STEPS if steps[step]},
        "flags": flags,
    }
    record = {
        "cascade_srn": __version__,
        "settings": _plain_settings(settings),
        "symmetric": sorted(symmetric),
        "acyclic": sorted(acyclic),
        "models": sorted(set(extracted.tables["entities"]["model"].drop_null().unique().to_pylist())),
        **report,
    }
    return tables, record, report | {"notes": (*extracted.notes, *found.notes, *notes)}


def collect_surfaces(extracted: Extracted) -> list[Surface]:
    """Count the distinct mentions, in their order."""
    columns = extracted.tables["entities"].select(["text", "label"])
    counted = columns.group_by(["text", "label"]).aggregate([([], "count_all")])
    rows = zip(*(counted[name].to_pylist() for name in ("text", "label", "count_all")), strict=True)
    return [Surface(*row) for row in sorted(rows)]


def iterate_texts(extracted: Extracted) -> Iterator[tuple[int, str, str]]:
    """Yield position, id and text of the documents that have one."""
    documents = extracted.tables["documents"].select(["document_id", "text"])
    at = 0
    for batch in documents.to_batches(max_chunksize=1000):
        for name, text in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if text is not None:
                yield at, name, text
            at += 1


def _create(connection: duckdb.DuckDBPyConnection, name: str, columns: str, *values: Iterable[Any]) -> None:
    """Create a table from the values of its columns, which are given as for :func:`make_schema`."""
    pa, schema = load_library("pyarrow"), make_schema(columns)
    arrays = [pa.array(list(one), kind) for one, kind in zip(values, schema.types, strict=True)]
    connection.register("given", pa.table(arrays, schema=schema))
    connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    connection.unregister("given")


def _register_keys(connection: duckdb.DuckDBPyConnection, surfaces: list[Surface], found: Resolution) -> None:
    texts, labels = ([getattr(surface, name) for surface in surfaces] for name in ("text", "label"))
    _create(connection, "surfaces", "text:string label:string key:int64", texts, labels, found.key_of)
    local = sorted((document, key, other) for (document, key), other in found.local.items())
    columns = zip(*local, strict=True) if local else ((),) * 3
    _create(connection, "local", "document:int64 key:int64 other:int64", *columns)
    roots = [found.forest.root(key) for key in range(len(found.forest.keys))]
    main = found.forest.main_keys()
    steps = [found.forest.step(key, main[root]) for key, root in enumerate(roots)]
    _create(connection, "keys", "key:int64 root:int64 step:string", range(len(roots)), roots, steps)


def _name(connection: duckdb.DuckDBPyConnection, found: Resolution) -> _Named:
    forest = found.forest
    votes = count_votes(connection)
    given = {forest.root(key): label for key, label in found.labels.items()}
    labels = {root: given.get(root) or winner(weights) for root, weights in votes.items()}
    main = forest.main_keys()
    names = {root: forest.keys[main[root]].name for root in votes}
    ids = name_nodes((root, names[root], labels[root], forest.keys[root].text) for root in votes)
    return _Named(ids, names, labels, votes)


def _create_nodes(connection: duckdb.DuckDBPyConnection, named: _Named) -> None:
    roots = sorted(named.ids, key=named.ids.__getitem__)
    values = ([by_root[root] for root in roots] for by_root in (named.ids, named.names, named.labels))
    votes = [json.dumps(named.votes[root], ensure_ascii=False) for root in roots]
    _create(connection, "nodes", "root:int64 node:string name:string label:string votes:string", roots, *values, votes)


def _relation_kinds(extracted: Extracted, settings: GraphSettings) -> tuple[set[str], set[str], list[str]]:
    """Return symmetric and acyclic relation types, and notes on those that do not occur."""
    known = set(extracted.tables["relations"]["label"].unique().to_pylist())
    schema = None if settings.schema is None else _read_schema(Path(settings.schema))
    symmetric, acyclic = set(SYMMETRIC), set(ACYCLIC)
    if schema is not None:
        symmetric, acyclic = set(schema.symmetric), acyclic | schema.acyclic
    if settings.symmetric is not None:
        symmetric = set(settings.symmetric)
    if settings.acyclic is not None:
        acyclic = set(settings.acyclic)
    notes = [
        f"no relation has the type {label!r}. {suggest(label, known)}".strip()
        for label in sorted({*(settings.symmetric or ()), *(settings.acyclic or ())} - known)
    ]
    return symmetric & known, (acyclic & known) - symmetric, notes


def _read_schema(path: Path) -> Schema:
    """Read a label set from its file or from the folder of a model."""
    if not path.is_dir():
        return read_schema(path)
    config = read_stored_json(path / "config.json", "Give the folder of a model, or a file with the label set")
    if not isinstance(config, dict) or not isinstance(config.get("schema"), dict):
        raise DataError(f"{path} is not the folder of a model", "Give a file with the label set", option="schema")
    return Schema.from_dict(config["schema"])


def _merge_rows(surfaces: list[Surface], found: Resolution, named: _Named) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of ``merges``: forms of a key, keys, local acronyms, and types."""
    forest = found.forest

    def row(root: int, text: str, label: str, into: str, into_label: str, step: str, reason: str, score: float) -> Any:
        return named.ids[root], text, label, into, into_label, step, reason, score

    for key, form, reason in describe_forms(surfaces, found):
        root, label = forest.root(key), forest.keys[key].main_label
        if root in named.ids:
            yield row(root, form, label, forest.keys[key].name, label, "text", reason, 1.0)
    for merge in forest.merges:
        root, one, other = forest.root(merge.key), forest.keys[merge.key], forest.keys[merge.into]
        if root in named.ids:
            labels = one.main_label or named.labels[root], other.main_label or named.labels[root]
            yield row(root, one.name, labels[0], other.name, labels[1], merge.step, merge.reason, merge.score)
    for (_, key), into in found.local.items():
        root, short, long = forest.root(into), forest.keys[key], forest.keys[into]
        if root in named.ids:
            reason = f"{found.reasons[key, into]}, for these documents"
            labels = short.main_label, long.main_label or named.labels[root]
            yield row(root, short.name, labels[0], long.name, labels[1], "acronym", reason, 1.0)
    for root, votes in named.votes.items():
        label, name = named.labels[root], named.names[root]
        for loser in sorted(votes.keys() - {label}):
            reason = f"vote of {votes[loser]:g} against {votes.get(label, 0):g}"
            yield row(root, name, loser, name, label, "type", reason, 1.0)


def _plain_settings(settings: GraphSettings) -> dict[str, Any]:
    """Return the settings with the names of files instead of their paths."""
    files = ("aliases", "merges", "splits", "schema")
    values = settings.to_dict()
    return values | {name: Path(values[name]).name for name in files if values[name]}
