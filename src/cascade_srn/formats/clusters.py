"""Read and write coreference clusters, which are lists of mentions."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from cascade_srn.formats.alignment import WordMap
from cascade_srn.formats.base import ReadContext
from cascade_srn.formats.builder import place_span
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.reports import EXPANDED_MENTION
from cascade_srn.types import Document, Mention

Place = Callable[[Value], Mention]
"""Function from a mention of a record to its words. It refuses a malformed one."""


def read_clusters(items: Sequence[Value], place: Place, context: ReadContext) -> tuple[tuple[Mention, ...], ...]:
    """Read the clusters of a document.

    A mention that is repeated within its cluster is read once and noted, because published corpora contain some. A
    mention in two clusters is refused. Where malformed input is skipped, a cluster is left out with its last mention.
    """
    clusters: list[tuple[Mention, ...]] = []
    owners: dict[Mention, str] = {}
    for item in items:
        cluster = context.attempt("cluster", _read_cluster, item, place, owners, context)
        if cluster:
            clusters.append(cluster)
    return tuple(clusters)


def _read_cluster(item: Value, place: Place, owners: dict[Mention, str], context: ReadContext) -> tuple[Mention, ...]:
    if not item.length():
        raise item.refuse("empty", "but a list of mentions was expected", "Remove it")
    found: dict[Mention, None] = {}
    for part in item.items():
        mention = context.attempt("mention", _read_mention, part, place, item.path, owners)
        if mention is None:
            continue
        if mention in found:
            context.report.note("mention repeated", part.example())
        found[mention] = None
    return tuple(found)


def _read_mention(item: Value, place: Place, cluster: str, owners: dict[Mention, str]) -> Mention:
    mention = place(item)
    if owners.setdefault(mention, cluster) != cluster:
        raise item.refuse("in two clusters", f"which is also in {owners[mention]}", "Join the clusters, or remove it")
    return mention


def place_by_characters(words: WordMap, context: ReadContext) -> Place:
    """Return a function that places mentions given as pairs of half-open character offsets."""
    return partial(_place_by_characters, words, context)


def _place_by_characters(words: WordMap, context: ReadContext, item: Value) -> Mention:
    start, end = (bound.integer() for bound in item.items(2, 2))
    item.check_half_open(start, end, len(words.text), "characters in the text")
    found = place_span(item, words, start, end, context)
    if not found.exact:
        context.report.note(EXPANDED_MENTION, item.example())
    return Mention(found.sentence, found.start, found.end)


def clusters_field(document: Document) -> dict[str, Any]:
    """Return the field ``clusters`` with character offsets; nothing for a document without clusters."""
    if not document.clusters:
        return {}
    return {"clusters": [[list(document.locate(mention)) for mention in cluster] for cluster in document.clusters]}
