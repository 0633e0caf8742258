"""Build a graph from extracted documents."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cascade_srn.apps.graph.acronyms import Definitions, define_acronyms
from cascade_srn.apps.graph.edges import (
    QUERIES,
    count_nodes,
    count_votes,
    find_relations,
    flag_edges,
    make_edges,
    make_slug,
    name_nodes,
    place_mentions,
    quote_sentences,
    winner,
)
from cascade_srn.apps.graph.incremental import ResolutionChange, Resolver, key_row, make_table
from cascade_srn.apps.graph.link import describe_vocabulary, link_nodes
from cascade_srn.apps.graph.load import Extracted, load
from cascade_srn.apps.graph.patch import Earlier, Patch, make_merges
from cascade_srn.apps.graph.resolve import Resolution, Surface, Texts, count_words, describe_forms, resolve
from cascade_srn.apps.graph.rules import WordCounts
from cascade_srn.apps.graph.settings import ACYCLIC, SYMMETRIC, GraphReport, GraphSettings
from cascade_srn.apps.graph.sources import FILES, GraphSources, absolute_files
from cascade_srn.apps.graph.store import DATABASE, check_target, write_graph
from cascade_srn.apps.graph.tables import STEPS, TABLES, load_library
from cascade_srn.apps.graph.vocabulary import read_vocabulary
from cascade_srn.errors import ConfigError, DataError, suggest
from cascade_srn.formats.files import read_stored_json
from cascade_srn.formats.schema_file import read_schema
from cascade_srn.inference.options import parse_precision
from cascade_srn.inference.precision import find_min_scores
from cascade_srn.model.folder import model_checksum, read_precision, read_settings
from cascade_srn.runs.garbage import without_garbage_collection
from cascade_srn.schema import Schema
from cascade_srn.storage.bundled import find_model
from cascade_srn.version import __version__

if TYPE_CHECKING:
    import duckdb
    import pyarrow


@without_garbage_collection()
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
    return build_from(GraphSources(load(given, settings), absolute_files(settings)), output, overwrite=overwrite)


@without_garbage_collection()
def build_from(
    sources: GraphSources, output: str | Path, *, overwrite: bool = False, earlier: Earlier | None = None
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
        built = _make_tables(connection, sources, earlier)
    finally:
        connection.close()
    options: dict[str, Any] = {"overwrite": overwrite, "add": partial(sources.write, state=built.state)}
    old = Path(output) / DATABASE
    if built.patch is not None and old.is_file():
        linked = bool(built.report["links"])
        options["database"] = partial(built.patch.write_database, old, tables=built.tables, linked=linked)
    write_graph(output, built.tables, built.record, **options)
    counts = {name: built.tables[name].num_rows for name in TABLES}
    return GraphReport(str(output), counts, **built.report)


@dataclass(frozen=True)
class _Named:
    """Nodes by root: id, name, label and votes."""

    ids: dict[int, str]
    names: dict[int, str]
    labels: dict[int, str]
    votes: dict[int, dict[str, float]]


@dataclass(frozen=True)
class _Built:
    """A graph that can be written: its tables, the content of ``graph.json``, the report, the state, and the change."""

    tables: dict[str, pyarrow.Table]
    record: dict[str, Any]
    report: dict[str, Any]
    state: dict[str, pyarrow.Table]
    patch: Patch | None


def _make_tables(connection: duckdb.DuckDBPyConnection, sources: GraphSources, earlier: Earlier | None) -> _Built:
    extracted, settings = sources.extracted, sources.settings
    vocabulary = read_vocabulary(settings)
    schema = None if settings.schema is None else _read_schema(Path(settings.schema))
    symmetric, acyclic, notes = _relation_kinds(extracted, settings, schema)
    change = None
    if earlier is not None and earlier.record["symmetric"] == sorted(symmetric):
        change = _resolve_change(earlier, settings)
    patch = None if earlier is None or change is None else Patch(earlier, change, extracted)
    change = change or _resolve_all(extracted, settings)
    found, numbers, state = change.found, change.numbers, change.tables
    connection.register("dates", extracted.tables["documents"].select(["document", "date"]))
    for name in ("surfaces", "keys", "local"):
        connection.register(name, state[name])

    def place() -> None:
        for name, table in (extracted.tables if patch is None else patch.scope()).items():
            connection.register(name, table)
        place_mentions(connection)

    place()
    if patch is not None:
        patch.add_voters(connection)
    named, renamed = _name(connection, found, numbers, patch)
    nodes, state["roots"] = _describe_nodes(named, numbers)
    if patch is not None:
        state["roots"], is_more = patch.rename(state["roots"], renamed)
        if is_more:
            place()
    connection.register("roots", state["roots"])
    connection.execute("CREATE TABLE nodes AS SELECT root, node FROM roots SEMI JOIN placed USING (root)")
    min_scores = {} if settings.precision is None else _promise(settings.precision, settings.schema, extracted)
    dropped = find_relations(connection, settings, symmetric, min_scores)
    quote_sentences(connection)
    if patch is not None:
        patch.add_standing(connection)
        dropped = patch.count_dropped(dropped, settings, symmetric)
    dropped["relations of edges below the minimum count"] = make_edges(connection, settings.min_count)
    tables = {name: connection.sql(query).to_arrow_table() for name, query in QUERIES.items()}
    merges = _merge_rows(change.surfaces, found, named)
    if patch is None:
        tables |= {"nodes": nodes, "merges": make_merges(merges), "documents": extracted.tables["documents"]}
    else:
        tables = patch.merge(connection, tables, nodes, make_merges(merges))
    tables["edges"], flags = flag_edges(tables["edges"], acyclic)
    dates = extracted.tables["documents"]["date"].to_pylist()
    tables["nodes"] = count_nodes(tables["nodes"], tables["mentions"], tables["edges"], dates)
    known = {*extracted.tables["entities"]["label"].unique().to_pylist(), *(schema.entity_types if schema else ())}
    tables["nodes"], tables["links"], links = link_nodes(
        connection,
        tables["nodes"],
        tables["mentions"],
        vocabulary,
        labels=known,
        threshold=settings.vocabulary_threshold,
        by_type=not settings.types,
    )
    steps = Counter(tables["merges"]["step"].to_pylist())
    report: dict[str, Any] = {
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
    report |= {"links": links, "notes": (*extracted.notes, *found.notes, *notes)}
    return _Built(tables, record, report, state, patch)


def _resolve_all(extracted: Extracted, settings: GraphSettings) -> ResolutionChange:
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

    words = found.words or WordCounts({}, Counter(), Counter())
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
    return ResolutionChange(found, {at: at for at in range(len(forest.keys))}, surfaces, set(), set(), state)


def _resolve_change(earlier: Earlier, settings: GraphSettings) -> ResolutionChange | None:
    """Resolve the names that a change affects, and change the state."""
    connection = load_library("duckdb").connect()
    try:
        tables = {name: earlier.tables[name] for name in ("surfaces", "keys", "tokens")} | {"local": earlier.local}
        for name, table in tables.items():
            connection.register(name, table)
        change = Resolver(connection, earlier.tables["keys"], settings, earlier.texts).run(earlier.difference)
    finally:
        connection.close()
    if change is not None:
        change.tables["definitions"] = earlier.definitions
        change.tables["words"] = make_table("words", ((word, n) for word, n in earlier.texts.words.items() if n))
        change.tables.setdefault("tokens", earlier.tables["tokens"])
    return change


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


def _name(
    connection: duckdb.DuckDBPyConnection, found: Resolution, numbers: Mapping[int, int], patch: Patch | None
) -> tuple[_Named, dict[int, str]]:
    """Name nodes. Return them by root, and the ids of others with the same names by the number of their root."""
    forest = found.forest
    roots = {numbers[root]: root for root in {forest.root(at) for at in numbers}}
    counted = count_votes(connection, roots, "placed" if patch is None else "voters")
    votes = {roots[number]: given for number, given in counted.items()}
    given = {forest.root(key): label for key, label in found.labels.items()}
    labels = {root: given.get(root) or winner(weights) for root, weights in votes.items()}
    main = forest.main_keys()
    names = {root: forest.keys[main[root]].name for root in votes}
    slugs = {make_slug(names[root], labels[root]) for root in votes}
    near = [] if patch is None else patch.find_slugs(connection, slugs)
    # Roots of other nodes have no place in the forest, so that they get negative numbers.
    ids = name_nodes(
        [(root, names[root], labels[root], forest.keys[root].text) for root in votes]
        + [(-1 - root, name, label, text) for root, name, label, text in near]
    )
    renamed = {-1 - root: ids.pop(root) for root in list(ids) if root < 0}
    return _Named(ids, names, labels, votes), renamed


def _describe_nodes(named: _Named, numbers: Mapping[int, int]) -> tuple[pyarrow.Table, pyarrow.Table]:
    """Return id, name, label and votes of nodes in the order of their ids, and the table of their roots."""
    pa = load_library("pyarrow")
    roots = sorted(named.ids, key=named.ids.__getitem__)
    values = [[by_root[root] for root in roots] for by_root in (named.ids, named.names, named.labels)]
    votes = [json.dumps(named.votes[root], ensure_ascii=False) for root in roots]
    nodes = pa.table([pa.array(column, pa.string()) for column in (*values, votes)], ["node", "name", "label", "votes"])
    slugs = [make_slug(named.names[root], named.labels[root]) for root in roots]
    return nodes, make_table("roots", zip((numbers[root] for root in roots), values[0], slugs, strict=True))


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
