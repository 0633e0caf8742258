"""Add, replace and remove documents of a graph. The result is that of a build from the documents that are left."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cascade_srn.apps.graph.acronyms import Definitions, define_acronyms
from cascade_srn.apps.graph.build import build_from, collect_surfaces, iterate_texts
from cascade_srn.apps.graph.incremental import DocumentChange, make_table
from cascade_srn.apps.graph.load import Extracted, load
from cascade_srn.apps.graph.patch import Earlier
from cascade_srn.apps.graph.resolve import Texts, count_words
from cascade_srn.apps.graph.settings import GraphReport, GraphSettings
from cascade_srn.apps.graph.sources import GraphSources, combine, read_sources, read_state
from cascade_srn.apps.graph.store import read_record
from cascade_srn.apps.graph.tables import load_library
from cascade_srn.errors import DataError
from cascade_srn.runs.garbage import without_garbage_collection
from cascade_srn.storage.files import checksum
from cascade_srn.storage.lock import FolderLock

if TYPE_CHECKING:
    import pyarrow

_SHOWN = 3


def update(graph: str | Path, corpora: str | Path | Sequence[str | Path]) -> GraphReport:
    """Add documents to a graph. Documents with known ids are replaced.

    If several documents of the graph have the id, the one of the same input file is replaced. Readers see the old
    graph until the new one is complete.

    Args:
        graph: Folder of a graph.
        corpora: What :func:`build` takes.

    Raises:
        DataError: The folder is no graph, follows a folder of files, or cannot be changed; the input cannot be read,
            was extracted with another model, or has an id of several documents that are of other files.

    Example:
        >>> update("graph", "new.jsonl").changes  # doctest: +SKIP
        {'added': 98, 'replaced': 2, 'removed': 0}
    """
    given = [corpora] if isinstance(corpora, str | Path) else list(corpora)
    with changing(graph):
        sources = _changeable(graph)
        new = load(given, sources.settings, check_fields=False)
        _check_model(sources.extracted, new)
        replaced = _find_replaced(sources.extracted, new)
        known = set(sources.extracted.tables["documents"]["document_id"].to_pylist())
        n_new = sum(name not in known for name in new.tables["documents"]["document_id"].to_pylist())
        return write_change(graph, sources, replaced, new, added=n_new + len(replaced), replaced=len(replaced))


def remove(graph: str | Path, ids: Iterable[str] = (), *, file: str | None = None) -> GraphReport:
    """Remove documents from a graph.

    Args:
        graph: Folder of a graph.
        ids: Ids of documents.
        file: Only documents of this input file; all of them if there are no ids.

    Raises:
        DataError: The folder is no graph, follows a folder of files, or cannot be changed; an id is unknown, or belongs
            to several documents; or no document would be left.
    """
    wanted = dict.fromkeys(ids)
    with changing(graph):
        sources = _changeable(graph)
        documents = sources.extracted.tables["documents"]
        places: defaultdict[str, list[int]] = defaultdict(list)
        inputs = documents["input"].to_pylist()
        for number, name in enumerate(documents["document_id"].to_pylist()):
            if file is None or inputs[number] == file:
                places[name].append(number)
        if file is not None and not places:
            raise DataError(f"no document is from the file {file!r}", "See the column input of documents.parquet")
        missing = [name for name in wanted if name not in places]
        if missing:
            raise DataError(
                f"the graph has no document {_show(missing)}", "See the column document_id of the documents"
            )
        repeated = [name for name in wanted if len(places[name]) > 1]
        if repeated:
            raise _ambiguous(repeated, inputs, places[repeated[0]])
        gone = {number for name in wanted or list(places) for number in places[name]}
        if file is None and not wanted:
            raise DataError("there is nothing to remove", "Give ids or a file", option="ids")
        return write_change(graph, sources, gone, None, removed=len(gone))


@contextmanager
def changing(graph: str | Path) -> Iterator[Path]:
    """Lock a graph against other changes. Yields a hidden folder beside it for what an interrupted change leaves."""
    real = Path(graph).resolve()
    work = real.with_name(f".{real.name}.change")
    try:
        with FolderLock(work):
            yield work
    finally:
        with suppress(OSError):
            work.rmdir()  # empty, unless there is something to continue


def _changeable(graph: str | Path) -> GraphSources:
    sources = read_sources(graph)
    if sources.follows is not None:
        raise DataError(f"{graph} follows a folder of files", "Change the files, and run `graph sync` again")
    return sources


@without_garbage_collection()
def write_change(
    graph: str | Path, sources: GraphSources, gone: Collection[int], new: Extracted | None, **changes: int
) -> GraphReport:
    """Write the graph without some documents, given by their numbers, and with new ones."""
    n_old = sources.extracted.tables["documents"].num_rows
    if new is None and len(gone) == n_old:
        raise DataError("no document would be left", "Remove the folder of the graph instead")
    kept = [number not in gone for number in range(n_old)]
    relinked = vocabulary_changed(graph, sources.settings)
    record = read_record(graph)
    state = _usable_state(graph, sources, record)
    if state is None:
        earlier, combined = None, combine(sources.extracted, kept, new)[0]
    else:
        earlier, combined = _compare(sources, record, state, kept, new)
    report = build_from(replace(sources, extracted=combined), graph, overwrite=True, earlier=earlier)
    changed = {"added": changes.get("added", 0) - changes.get("replaced", 0), "replaced": 0, "removed": 0} | {
        name: count for name, count in changes.items() if name != "added"
    }
    notes = [f"{sources.settings.vocabulary} has changed, so that all nodes are linked again"] if relinked else []
    return replace(report, changes=changed, notes=(*notes, *combined.notes, *report.notes))


def vocabulary_changed(graph: str | Path, settings: GraphSettings) -> bool:
    """Return whether the vocabulary has another content than the one that the nodes of a graph are linked to."""
    if settings.vocabulary is None:
        return False
    return bool(read_record(graph).get("vocabulary", {}).get("sha256") != checksum(Path(settings.vocabulary)))


def _usable_state(
    graph: str | Path, sources: GraphSources, record: Mapping[str, Any]
) -> dict[str, pyarrow.Table] | None:
    """Return the tables of a graph and its state; None if everything has to be built.

    This is so if files say what is the same, or if the tables lack relations that a change can bring back.
    """
    settings = sources.settings
    if settings.aliases or settings.merges or settings.splits or settings.precision or settings.min_count > 1:
        return None
    return read_state(graph, record)


def _compare(
    sources: GraphSources,
    record: Mapping[str, Any],
    state: dict[str, pyarrow.Table],
    kept: Sequence[bool],
    new: Extracted | None,
) -> tuple[Earlier, Extracted]:
    """Return what a change of documents changes, and the documents after it."""
    settings, old = sources.settings, sources.extracted
    surfaces: Counter[tuple[str, str]] = Counter()
    words: Counter[str] = Counter()
    changed: list[tuple[int, str, str, str]] = []
    for part, sign in ((_select(old, [not keep for keep in kept]), -1), (new, 1)):
        if part is None:
            continue
        for surface in collect_surfaces(part):
            surfaces[surface.text, surface.label] += sign * surface.n
        for word, n in (count_words(iterate_texts(part)) if settings.fuzzy else Counter()).items():
            words[word] += sign * n
        definitions = list(define_acronyms(iterate_texts(part))) if settings.acronyms else []
        changed += definitions
        if part is new:
            added = {"definitions": make_table("definitions", definitions), "local": make_table("local", [])}
            new = Extracted(part.tables | added, part.notes)
    extra = {name: state[name] for name in ("definitions", "local")}
    combined, numbers = combine(Extracted(old.tables | extra, ()), kept, new)
    renumbered = {name: combined.tables.pop(name) for name in extra}
    after = Definitions()
    for row in _tuples(renumbered["definitions"]):
        after.add(*row)
    # The name of a long form may change for all acronyms that have it.
    longs = {long for _, _, long, _ in changed}
    acronyms = {short: set(found.values()) for short, found in after.by_short.items() if longs & set(found.values())}
    for _, short, long, _ in changed:
        acronyms.setdefault(short, set(after.by_short.get(short, {}).values())).add(long)
    counts = Counter(dict(_tuples(state["words"])))
    counts.update(words)
    ids = combined.tables["documents"]["document_id"]
    texts = Texts(after, counts, lambda at: str(ids[at]))
    difference = DocumentChange(_without_zeros(surfaces), acronyms, _without_zeros(words))
    return Earlier(record, state, old, numbers, texts, difference, **renumbered), combined


def _without_zeros(counts: Counter[Any]) -> dict[Any, int]:
    return {key: n for key, n in counts.items() if n}


def _tuples(table: pyarrow.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _select(extracted: Extracted, chosen: Sequence[bool]) -> Extracted:
    """Return the entities and texts of some documents."""
    np, pa = load_library("numpy"), load_library("pyarrow")
    mask, entities = np.asarray(chosen, dtype=bool), extracted.tables["entities"]
    tables = {"documents": extracted.tables["documents"].filter(pa.array(mask))}
    return Extracted(tables | {"entities": entities.filter(pa.array(mask[entities["document"]]))}, ())


def _find_replaced(old: Extracted, new: Extracted) -> set[int]:
    """Return the numbers of the documents that new ones replace."""
    inputs = old.tables["documents"]["input"].to_pylist()
    places: defaultdict[str, list[int]] = defaultdict(list)
    for number, name in enumerate(old.tables["documents"]["document_id"].to_pylist()):
        places[name].append(number)
    found: set[int] = set()
    documents = new.tables["documents"].select(["document_id", "input"])
    for name, file in zip(*(column.to_pylist() for column in documents.columns), strict=True):
        known = places.get(name, []) if name else []
        chosen = known if len(known) < 2 else [number for number in known if inputs[number] == file]
        if known and not chosen:
            raise _ambiguous([name], inputs, known)
        found.update(chosen)
    return found


def _ambiguous(names: Sequence[str], inputs: Sequence[str], places: Sequence[int]) -> DataError:
    files = Counter(inputs[number] for number in places)
    problem = f"the id {names[0]!r} belongs to {len(places)} documents, of {_show(list(files))}"
    hint = "Name the file as well" if len(files) > 1 else "Build the graph again without one of them"
    return DataError(problem, hint, option="file" if len(files) > 1 else "")


def _check_model(old: Extracted, new: Extracted) -> None:
    """Refuse documents of another model than those of the graph."""
    known, given = (_models(extracted) for extracted in (old, new))
    if known and given - known:
        raise DataError(
            f"the documents were extracted with the model {_short(given - known)}, but those of the graph with "
            + _short(known),
            "Extract them with that model, or build a graph from all documents",
        )


def _models(extracted: Extracted) -> set[Any]:
    return set(extracted.tables["entities"]["model"].drop_null().unique().to_pylist())


def _short(models: Iterable[str]) -> str:
    return ", ".join(sorted(model[:12] for model in models))


def _show(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more
