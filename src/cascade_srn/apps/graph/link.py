"""Link nodes to the entries of a vocabulary: by exact names, by normalised names, and by character n-grams."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cascade_srn.apps.graph.forest import Key
from cascade_srn.apps.graph.generic import COREFERENCE
from cascade_srn.apps.graph.normalise import is_acronym, normalise, squeeze
from cascade_srn.apps.graph.rules import MIN_LETTERS, is_misspelling, numbers_of, plain_words, turn_words
from cascade_srn.apps.graph.tables import load_library, table_schema
from cascade_srn.apps.graph.vocabulary import Vocabulary

if TYPE_CHECKING:
    import duckdb
    import pyarrow

EXACT, NORMALISED, NGRAM, AMBIGUOUS, UNLINKED = "exact", "normalised", "n-gram", "ambiguous", "unlinked"
_N = 3
_ROUNDING = 1e-9
# Position of an entry, the text of the node that it was found with, and the similarity.
_Found = tuple[int, str, float]


def link_nodes(
    connection: duckdb.DuckDBPyConnection,
    nodes: pyarrow.Table,
    mentions: pyarrow.Table,
    vocabulary: Vocabulary | None,
    *,
    labels: Collection[str],
    threshold: float,
    by_type: bool,
) -> tuple[pyarrow.Table, pyarrow.Table, dict[str, int]]:
    """Link all nodes of a graph.

    Args:
        connection: A database.
        nodes: The table of nodes.
        mentions: The table of mentions.
        vocabulary: The vocabulary; None leaves all nodes unlinked.
        labels: Entity types of the schema.
        threshold: Minimum similarity of n-grams.
        by_type: Whether nodes of different types may have the same text.

    Returns:
        The nodes with ``identifier`` and ``link``, the table ``links``, and the number of nodes by kind of link.
    """
    pa = load_library("pyarrow")
    rows: list[tuple[str, str, str, str, str, float]] = []
    given: dict[str, tuple[str | None, str]] = {}
    if vocabulary is not None:
        linker = Linker(vocabulary, labels, threshold)
        connection.register("all_nodes", nodes.select(["node", "label"]))
        connection.register("all_mentions", mentions.select(["node", "text", "step"]))
        forms = _read_forms(connection, by_type)
        names = (nodes[column].to_pylist() for column in ("node", "name", "label"))
        for node, name, label in zip(*names, strict=True):
            kind, found = linker.find(name, forms.get(node, ()), label)
            entries = [(vocabulary.entries[at], text, score) for at, text, score in found]
            rows += [(node, entry.id, entry.names[0], text, kind, score) for entry, text, score in entries]
            if found:
                given[node] = (entries[0][0].id, kind) if len(found) == 1 else (None, AMBIGUOUS)
    found_of = [given.get(node, (None, None)) for node in nodes["node"].to_pylist()] if given else []
    for position, column in enumerate(("identifier", "link")):
        values = [found[position] for found in found_of] or [None] * nodes.num_rows
        nodes = nodes.append_column(column, pa.array(values, pa.string()))
    schema = table_schema("links")
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    links = pa.table([pa.array(list(c), kind) for c, kind in zip(columns, schema.types, strict=True)], schema=schema)
    kinds = Counter(kind for _, kind in given.values())
    counts = {kind: kinds[kind] for kind in (EXACT, NORMALISED, NGRAM, AMBIGUOUS)}
    counts[UNLINKED] = nodes.num_rows - len(given)
    return nodes, links, counts if vocabulary is not None else {}


def _read_forms(connection: duckdb.DuckDBPyConnection, by_type: bool) -> dict[str, list[str]]:
    """Return the texts of the mentions by node. A text counts for the node with the most mentions of it.

    An acronym that means something else in some documents does not lead to another thing there.
    """
    found: defaultdict[str, list[str]] = defaultdict(list)
    rows = connection.execute(f"""
        WITH counted AS (
            SELECT node, label, text, count(*) AS n FROM all_mentions JOIN all_nodes USING (node)
            WHERE step IS DISTINCT FROM '{COREFERENCE}' GROUP BY ALL)
        SELECT node, text FROM counted
        QUALIFY n = max(n) OVER (PARTITION BY text {", label" if by_type else ""}) ORDER BY node, n DESC, text
    """).fetchall()
    for node, text in rows:
        found[node].append(text)
    return found


class Linker:
    """Finds the entries of a vocabulary for names.

    Args:
        vocabulary: The vocabulary.
        labels: Entity types of the schema. Other types of entries are ignored.
        threshold: Minimum similarity of n-grams.
    """

    def __init__(self, vocabulary: Vocabulary, labels: Collection[str], threshold: float) -> None:
        known = {label.casefold() for label in labels}
        self._types = [{name.casefold() for name in entry.types} & known for entry in vocabulary.entries]
        self._exact: defaultdict[str, list[int]] = defaultdict(list)
        self._normalised: defaultdict[str, list[int]] = defaultdict(list)
        self._names: defaultdict[str, list[tuple[int, Key]]] = defaultdict(list)
        for at, entry in enumerate(vocabulary.entries):
            for name in entry.names:
                key = normalise(name)
                for index, text in ((self._exact, name), (self._normalised, key)):
                    if text and at not in index[text]:
                        index[text].append(at)
                if _is_compared(name, key):
                    self._names[squeeze(key)].append((at, Key(key, "", name)))
        self._ngrams = NgramIndex(self._names, threshold)

    def find(self, name: str, forms: Iterable[str], label: str) -> tuple[str, list[_Found]]:
        """Return the kind of the link, and the best entries. Several are equally good.

        Args:
            name: Name of a node. It is decisive: other forms are compared if no entry has it.
            forms: The other forms.
            label: Entity type of the node.
        """
        steps: tuple[tuple[str, Mapping[str, Sequence[int]], Callable[[str], str]], ...] = (
            (EXACT, self._exact, lambda text: " ".join(text.split())),
            (NORMALISED, self._normalised, normalise),
        )
        for texts in ((name,), tuple(forms)):
            for kind, index, key in steps:
                found: dict[int, str] = {}
                for text in texts:
                    for at in index.get(key(text), ()):
                        if self._fits(at, label):
                            found.setdefault(at, text)
                if found:
                    return kind, [(at, text, 1.0) for at, text in sorted(found.items())]
        return NGRAM, list(self._find_similar(name, label))

    def _fits(self, at: int, label: str) -> bool:
        return not self._types[at] or label.casefold() in self._types[at]

    def _find_similar(self, name: str, label: str) -> Iterator[_Found]:
        key = Key(normalise(name), "", name)
        if not _is_compared(name, key.text):
            return
        scores: dict[int, float] = {}
        for text, score in self._ngrams.search(squeeze(key.text)):
            for at, other in self._names[text]:
                if self._fits(at, label) and _are_alike(key, other):
                    scores[at] = max(score, scores.get(at, 0))
        best = max(scores.values(), default=0)
        yield from ((at, name, score) for at, score in sorted(scores.items()) if score == best)


def _is_compared(name: str, key: str) -> bool:
    return len(key) >= MIN_LETTERS and not is_acronym(name)


def _are_alike(one: Key, other: Key) -> bool:
    """Return whether names differ in spaces, in plurals and articles inside, in word order, or by a misspelled word.

    N-grams alone would link "supervised learning" with "unsupervised learning".
    """
    if numbers_of(one.text) != numbers_of(other.text):
        return False
    if squeeze(one.text) == squeeze(other.text) or turn_words(one) == other.text or turn_words(other) == one.text:
        return True
    return plain_words(one) == plain_words(other) != "" or is_misspelling(one, other)


class NgramIndex:
    """Finds texts by the cosine of the angle between their sets of character trigrams.

    Two sets are similar only if they share one of their rarest members, so that only these are looked up.

    Args:
        texts: The texts.
        threshold: Minimum cosine.
    """

    def __init__(self, texts: Iterable[str], threshold: float) -> None:
        self._threshold = threshold
        self._grams = {text: _split(text) for text in texts}
        self._counts = Counter(gram for grams in self._grams.values() for gram in grams)
        self._texts: defaultdict[str, list[str]] = defaultdict(list)
        for text, grams in self._grams.items():
            for gram in self._rarest(grams):
                self._texts[gram].append(text)

    def _rarest(self, grams: Collection[str]) -> list[str]:
        order = sorted(grams, key=lambda gram: (self._counts[gram], gram))
        return order[: len(order) - math.ceil(self._threshold**2 * len(order) - _ROUNDING) + 1]

    def search(self, text: str) -> Iterator[tuple[str, float]]:
        """Yield the similar texts with their cosine, rounded to three digits."""
        grams = _split(text)
        near = {other for gram in self._rarest(grams) for other in self._texts.get(gram, ())}
        for other in sorted(near):
            found = self._grams[other]
            cosine = len(grams & found) / math.sqrt(len(grams) * len(found))
            if cosine >= self._threshold - _ROUNDING:
                yield other, round(cosine, 3)


def _split(text: str) -> frozenset[str]:
    padded = f" {text} "
    return frozenset(padded[at : at + _N] for at in range(max(len(padded) - _N + 1, 1)))


def describe_vocabulary(vocabulary: Vocabulary, file: str, counts: Mapping[str, int]) -> dict[str, Any]:
    """Return what ``graph.json`` says about a vocabulary."""
    values = {"file": file, "format": vocabulary.format, "sha256": vocabulary.sha256}
    return values | {"entries": len(vocabulary.entries), "links": dict(counts)}
