"""Build a graph from extracted documents."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cascade_srn.apps.graph.acronyms import Definitions, define_acronyms
from cascade_srn.apps.graph.edges import (
    QUERIES,
    count_rows,
    count_votes,
    flag_edges,
    make_edges,
    make_slug,
    name_nodes,
    place_mentions,
    quote_sentences,
    winner,
)
from cascade_srn.apps.graph.incremental import Change, Difference, Resolver, key_row, make_table
from cascade_srn.apps.graph.link import describe_vocabulary, link_nodes
from cascade_srn.apps.graph.load import Extracted, load
from cascade_srn.apps.graph.resolve import Resolution, Surface, Texts, count_words, describe_forms, resolve
from cascade_srn.apps.graph.rules import Words
from cascade_srn.apps.graph.settings import ACYCLIC, SYMMETRIC, GraphReport, GraphSettings
from cascade_srn.apps.graph.sources import FILES, Sources, absolute_files
from cascade_srn.apps.graph.store import check_target, write_graph
from cascade_srn.apps.graph.tables import STEPS, load_library, make_schema, table_schema
from cascade_srn.apps.graph.vocabulary import read_vocabulary
from cascade_srn.errors import ConfigError, DataError, suggest
from cascade_srn.formats.files import read_stored_json
from cascade_srn.formats.schema_file import read_schema
from cascade_srn.inference.precision import find_min_scores
from cascade_srn.inference.precision_option import parse_precision
from cascade_srn.model.folder import model_checksum, read_precision, read_settings
from cascade_srn.schema import Schema
from cascade_srn.storage.bundled import find_model
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


def build_from(
    sources: Sources, output: str | Path, *, overwrite: bool = False, earlier: Earlier | None = None
) -> GraphReport:
    """Build a graph from loaded documents and write it to a folder, together with these.

    Args:
        sources: Documents and settings.
        output: The folder.
        overwrite: Replace a graph in the folder.
        earlier: The graph of which this is a change, to resolve only what is affected.
    """
    connection = load_library("duckdb").connect()
    try:
        tables, record, report, state = _make_tables(connection, sources, earlier)
    finally:
        connection.close()
    write_graph(output, tables, record, overwrite=overwrite, add=partial(sources.write, state=state))
    counts = {name: table.num_rows for name, table in tables.items()}
    return GraphReport(str(output), counts, **report)


@dataclass(frozen=True)
class Earlier:
    """A graph before a change.

    Attributes:
        tables: Tables ``nodes`` and ``merges`` of the graph, and those of its state, with the new numbers of documents.
        texts: What the texts of all documents say after the change.
        difference: What the documents that come and go change.
    """

    tables: Mapping[str, pyarrow.Table]
    texts: Texts
    difference: Difference


@dataclass(frozen=True)
class _Named:
    """Nodes by root: id, name, label and votes."""

    ids: dict[int, str]
    names: dict[int, str]
    labels: dict[int, str]
    votes: dict[int, dict[str, float]]


def _make_tables(
    connection: duckdb.DuckDBPyConnection, sources: Sources, earlier: Earlier | None
) -> tuple[dict[str, pyarrow.Table], dict[str, Any], dict[str, Any], dict[str, pyarrow.Table]]:
    pa = load_library("pyarrow")
    extracted, settings = sources.extracted, sources.settings
    for name, table in extracted.tables.items():
        connection.register(name, table)
    vocabulary = read_vocabulary(settings)
    change = None if earlier is None else _resolve_change(earlier, settings)
    if change is None:
        earlier = None
        change = _resolve_all(extracted, settings)
    surfaces, found, numbers, state = change.surfaces, change.found, change.numbers, change.tables
    for name in ("surfaces", "keys", "local"):
        connection.register(name, state[name])
    place_mentions(connection)
    others = _Others(connection, earlier, change.old_roots)
    named, renamed = _name(connection, found, numbers, others)
    own = _create_nodes(connection, named, numbers)
    others.rename(renamed)
    state["roots"] = others.roots(own)
    schema = None if settings.schema is None else _read_schema(Path(settings.schema))
    symmetric, acyclic, notes = _relation_kinds(extracted, settings, schema)
    n_entities = extracted.tables["entities"].num_rows
    dropped = {"generic mentions": n_entities - count_rows(connection, "placed")}
    dropped |= make_edges(
        connection,
        settings,
        symmetric,
        {} if settings.precision is None else _promise(settings.precision, settings.schema, extracted),
    )
    quote_sentences(connection)
    flags = flag_edges(connection, acyclic)
    tables = {name: connection.sql(query).to_arrow_table() for name, query in QUERIES.items()}
    known = {*extracted.tables["entities"]["label"].unique().to_pylist(), *(schema.entity_types if schema else ())}
    tables["nodes"], tables["links"], links = link_nodes(
        connection,
        tables["nodes"],
        vocabulary,
        labels=known,
        threshold=settings.vocabulary_threshold,
        by_type=not settings.types,
    )
    rows = sorted(
        {*others.merge_rows(), *_merge_rows(surfaces, found, named)},
        key=lambda row: (row[0], STEPS.index(row[5]), *row[1:]),
    )
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
    if vocabulary is not None:
        record["vocabulary"] = describe_vocabulary(vocabulary, Path(settings.vocabulary or "").name, links)
        notes += vocabulary.notes
    return tables, record, report | {"links": links, "notes": (*extracted.notes, *found.notes, *notes)}, state


def _resolve_all(extracted: Extracted, settings: GraphSettings) -> Change:
    """Resolve all names, and make the state."""
    surfaces = collect_surfaces(extracted)
    texts, definitions = read_texts(extracted, settings)
    found = resolve(surfaces, texts, settings)
    forest, main = found.forest, found.forest.main_keys()
    longs = {key: forest.keys[long].text for key, long in found.everywhere.items()}

    def rows() -> Iterator[Any]:
        for at, key in enumerate(forest.keys):
            root = forest.root(at)

            def lookup(short: str, label: str = key.label) -> str | None:
                position = forest.find(short, label)
                return None if position is None else longs.get(position)

            yield key_row(at, key, root, forest.step(at, main[root]), longs.get(at), lookup)

    words = found.words or Words({}, Counter(), Counter())
    tokens = ((word, words.counts[word], words.names[word]) for word in {**words.counts, **words.names})
    tables = {
        "surfaces": ((s.text, s.label, s.n, key) for s, key in zip(surfaces, found.key_of, strict=True)),
        "keys": rows(),
        "definitions": definitions,
        "local": ((document, key, other) for (document, key), other in found.local.items()),
        "words": texts.words.items(),
        "tokens": tokens,
    }
    state = {name: make_table(name, given) for name, given in tables.items()}
    return Change(found, {at: at for at in range(len(forest.keys))}, surfaces, set(), state)


def _resolve_change(earlier: Earlier, settings: GraphSettings) -> Change | None:
    """Resolve the names that a change affects, and change the state."""
    connection = load_library("duckdb").connect()
    try:
        for name in ("surfaces", "keys", "local", "tokens"):
            connection.register(f"given_{name}", earlier.tables[name])
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given_{name}")
        change = Resolver(connection, settings, earlier.texts).run(earlier.difference)
    finally:
        connection.close()
    if change is not None:
        change.tables["definitions"] = earlier.tables["definitions"]
        change.tables["words"] = make_table("words", ((word, n) for word, n in earlier.texts.words.items() if n))
        change.tables.setdefault("tokens", earlier.tables["tokens"])
    return change


class _Others:
    """Nodes that a change does not affect. Their ids change if a node with the same name comes or goes."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, earlier: Earlier | None, old_roots: Collection[int]
    ) -> None:
        self._connection = connection
        self._earlier = earlier
        self._renamed: dict[str, str] = {}
        self.slugs: set[str] = set()
        if earlier is None:
            return
        connection.register("old_roots", load_library("pyarrow").table({"root": sorted(old_roots)}))
        connection.register("given_nodes", earlier.tables["nodes"])
        connection.register("given_roots", earlier.tables["roots"])
        connection.execute("""
            CREATE TABLE kept AS SELECT root, node, name, label, votes, slug
            FROM given_roots JOIN given_nodes USING (node) ANTI JOIN old_roots USING (root)
        """)
        gone = connection.execute("SELECT node, slug FROM given_roots SEMI JOIN old_roots USING (root)").fetchall()
        self._gone = {node for node, _ in gone}
        self.slugs = {slug for _, slug in gone}

    def find(self, slugs: set[str]) -> list[tuple[int, str, str, str]]:
        """Return number of the root, name, label and key of the nodes whose ids are decided again."""
        if self._earlier is None:
            return []
        self._connection.register("slugs", load_library("pyarrow").table({"slug": sorted(slugs | self.slugs)}))
        rows: list[tuple[int, str, str, str]] = self._connection.execute("""
            SELECT kept.root, kept.name, kept.label, keys.text FROM kept JOIN keys ON keys.key = kept.root
            SEMI JOIN slugs ON slugs.slug = kept.slug
        """).fetchall()
        return rows

    def rename(self, ids: Mapping[int, str]) -> None:
        """Set the ids of nodes by root."""
        if self._earlier is None:
            return
        _create(self._connection, "renamed", "root:int64 new:string", ids.keys(), ids.values())
        rows = self._connection.execute("SELECT node, new FROM kept JOIN renamed USING (root)").fetchall()
        self._renamed = dict(rows)
        self._connection.execute("UPDATE kept SET node = new FROM renamed WHERE renamed.root = kept.root")
        self._connection.execute("INSERT INTO nodes SELECT * EXCLUDE (slug) FROM kept")

    def merge_rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the merges of these nodes."""
        merges = () if self._earlier is None else self._earlier.tables["merges"].columns
        for row in zip(*(column.to_pylist() for column in merges), strict=True):
            if row[0] not in self._gone:
                yield self._renamed.get(row[0], row[0]), *row[1:]

    def roots(self, own: pyarrow.Table) -> pyarrow.Table:
        """Return the table of all roots, from that of the others."""
        if self._earlier is None:
            return own
        kept = self._connection.sql("SELECT root, node, slug FROM kept").to_arrow_table().cast(own.schema)
        return load_library("pyarrow").concat_tables([kept, own])


def collect_surfaces(extracted: Extracted) -> list[Surface]:
    """Count the distinct mentions, in their order."""
    columns = extracted.tables["entities"].select(["text", "label"])
    counted = columns.group_by(["text", "label"]).aggregate([([], "count_all")])
    rows = zip(*(counted[name].to_pylist() for name in ("text", "label", "count_all")), strict=True)
    return [Surface(*row) for row in sorted(rows)]


def read_texts(extracted: Extracted, settings: GraphSettings) -> tuple[Texts, list[tuple[int, str, str, str]]]:
    """Return what the texts of the documents say, and the definitions of acronyms one by one."""
    found = list(define_acronyms(iterate_texts(extracted))) if settings.acronyms else []
    definitions = Definitions()
    for definition in found:
        definitions.add(*definition)
    words = count_words(iterate_texts(extracted)) if settings.fuzzy else Counter()
    return Texts(definitions, words, lambda at: str(extracted.tables["documents"]["document_id"][at])), found


def iterate_texts(extracted: Extracted) -> Iterator[tuple[int, str]]:
    """Yield position and text of the documents that have one."""
    at = 0
    for batch in extracted.tables["documents"].select(["text"]).to_batches(max_chunksize=1000):
        for text in batch.column(0).to_pylist():
            if text is not None:
                yield at, text
            at += 1


def _create(connection: duckdb.DuckDBPyConnection, name: str, columns: str, *values: Iterable[Any]) -> None:
    """Create a table from the values of its columns, which are given as for :func:`make_schema`."""
    pa, schema = load_library("pyarrow"), make_schema(columns)
    arrays = [pa.array(list(one), kind) for one, kind in zip(values, schema.types, strict=True)]
    connection.register("given", pa.table(arrays, schema=schema))
    connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    connection.unregister("given")


def _name(
    connection: duckdb.DuckDBPyConnection, found: Resolution, numbers: Mapping[int, int], others: _Others
) -> tuple[_Named, dict[int, str]]:
    """Name nodes. Return them by root, and the ids of others with the same names by the number of their root."""
    forest = found.forest
    roots = {numbers[root]: root for root in {forest.root(at) for at in numbers}}
    votes = {roots[number]: given for number, given in count_votes(connection, roots).items()}
    given = {forest.root(key): label for key, label in found.labels.items()}
    labels = {root: given.get(root) or winner(weights) for root, weights in votes.items()}
    main = forest.main_keys()
    names = {root: forest.keys[main[root]].name for root in votes}
    near = others.find({make_slug(names[root], labels[root]) for root in votes})
    # Roots of other nodes have no place in the forest, so that they get negative numbers.
    ids = name_nodes(
        [(root, names[root], labels[root], forest.keys[root].text) for root in votes]
        + [(-1 - root, name, label, text) for root, name, label, text in near]
    )
    renamed = {-1 - root: ids.pop(root) for root in list(ids) if root < 0}
    return _Named(ids, names, labels, votes), renamed


def _create_nodes(connection: duckdb.DuckDBPyConnection, named: _Named, numbers: Mapping[int, int]) -> pyarrow.Table:
    """Create the table of nodes. Return that of roots."""
    roots = sorted(named.ids, key=named.ids.__getitem__)
    values = [[by_root[root] for root in roots] for by_root in (named.ids, named.names, named.labels)]
    votes = [json.dumps(named.votes[root], ensure_ascii=False) for root in roots]
    columns = "root:int64 node:string name:string label:string votes:string"
    _create(connection, "nodes", columns, [numbers[root] for root in roots], *values, votes)
    slugs = [make_slug(named.names[root], named.labels[root]) for root in roots]
    return make_table("roots", zip((numbers[root] for root in roots), values[0], slugs, strict=True))


def _relation_kinds(
    extracted: Extracted, settings: GraphSettings, schema: Schema | None
) -> tuple[set[str], set[str], list[str]]:
    """Return symmetric and acyclic relation types, and notes on those that do not occur."""
    known = set(extracted.tables["relations"]["label"].unique().to_pylist())
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


def _promise(precision: str, model: str | None, extracted: Extracted) -> Mapping[str, float]:
    """Return the minimum scores of relation types that promise a precision."""
    folder = find_model(model if model is not None and Path(model).is_dir() else None)
    _, schema = read_settings(folder)
    choice, record = parse_precision(precision), read_precision(folder)
    if record is None:
        raise ConfigError(f"the model {folder.name!r} has no precision statistics", "Calibrate it", option="precision")
    others = set(extracted.tables["relations"]["model"].drop_null().unique().to_pylist()) - {model_checksum(folder)}
    if others:
        raise DataError(
            f"no precision can be promised: relations are from the model {min(others)[:12]}, not from {folder.name!r}",
            "Give the folder of that model",
            option="schema",
        )
    if any(name in ("entities", *schema.entity_types) for name in choice.levels) and "=" in precision:
        raise ConfigError("a graph promises the precision of relations only", "Leave entities out", option="precision")
    levels = {name: level for name, level in choice.levels.items() if name != "entities"}
    return find_min_scores(record, schema, choice._replace(levels=levels)).relations


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
    values = settings.to_dict()
    return values | {name: Path(values[name]).name for name in FILES if values[name]}
