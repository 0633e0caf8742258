"""Resolve only the names that a change of documents can affect.

The state of a graph has all keys with their roots, and the texts that each key looks up in a step. A change affects the
keys of its mentions and acronyms, then everything that was or will be in one set with them, and keys that depend on an
acronym or on a word whose meaning or frequency has changed. These keys are resolved again by the same steps, together
with all keys that they are compared with. If a step merges one of the latter with an affected key, it is affected as
well, and the resolution starts again. All other keys keep their roots.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from cascade_srn.apps.graph.acronyms import expand, short_words, split_own_acronym
from cascade_srn.apps.graph.forest import Forest, Key
from cascade_srn.apps.graph.normalise import normalise, singular, squeeze
from cascade_srn.apps.graph.resolve import Resolution, Surface, Texts, make_keys, merge_keys
from cascade_srn.apps.graph.rules import WordCounts, WordGroups, plain_words, respell, turn_words, without_head
from cascade_srn.apps.graph.settings import GraphSettings
from cascade_srn.apps.graph.tables import load_library, make_schema

if TYPE_CHECKING:
    import duckdb
    import pyarrow

_Id = tuple[str, str]
COLUMNS = {
    # The distinct mentions. The key is -1 for generic ones.
    "surfaces": "text:string label:string n:int64 key:int64",
    # squeeze and plain are the same for keys that are compared; the others are texts of keys that a key looks up.
    "keys": """
        key:int64 text:string label:string name:string main_label:string n:int64 root:int64 step:string long:string
        squeeze:string plain:string head:string own:string turn:string expanded:string shorts:string
    """,
    "definitions": "document:int64 short:string long:string name:string",
    "local": "document:int64 key:int64 other:int64",
    "words": "word:string n:int64",
    "tokens": "word:string n:int64 names:int64",
    "roots": "root:int64 node:string slug:string",
}
"""Tables of the state."""


def make_table(name: str, rows: Iterable[Sequence[Any]]) -> pyarrow.Table:
    """Make a table of the state from its rows."""
    pa, schema = load_library("pyarrow"), make_schema(COLUMNS[name])
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(list(c), kind) for c, kind in zip(columns, schema.types, strict=True)], schema=schema)


def key_row(number: int, key: Key, root: int, step: str, long: str | None, long_form: Callable[[str], Any]) -> Any:
    """Return the row of a key in the state."""
    *texts, own, turned, shorts = _links(key.text, key.name, key.n > 0)
    expanded = expand(key, long_form)[0] if shorts and not own else ""
    links = (text or None for text in (*texts, own, turned, expanded, shorts))
    return number, key.text, key.label, key.name, key.main_label, key.n, root, step, long, *links


@lru_cache(maxsize=1 << 14)  # a change asks for the same keys several times
def _links(text: str, name: str, is_used: bool) -> tuple[str, ...]:
    """Return the texts that a key looks up, but the one with expanded acronyms, and the acronyms among its words."""
    key = Key(text, "", name)
    own = split_own_acronym(key) if is_used else None
    shorts = " ".join(map(normalise, short_words(key))) if is_used else ""
    return squeeze(text), plain_words(key), without_head(key), own[0] if own else "", turn_words(key), shorts


@dataclass
class ResolutionChange:
    """What a change of documents does to the resolution.

    Attributes:
        found: The affected keys and those that they are compared with, resolved again.
        numbers: Numbers of the affected keys in the state, by position in the forest.
        surfaces: The mentions of affected keys.
        old_roots: Roots that affected keys had.
        moved: Affected keys with another root or step than before, and those that are new or gone.
        tables: The new state, without ``roots``.
    """

    found: Resolution
    numbers: dict[int, int]
    surfaces: list[Surface]
    old_roots: set[int]
    moved: set[int]
    tables: dict[str, pyarrow.Table]


@dataclass(frozen=True)
class DocumentChange:
    """How the documents of a graph change.

    Attributes:
        surfaces: Difference of the number of mentions by text and label.
        acronyms: Acronyms that documents define which are added or removed, with all their long forms.
        words: Difference of the number of words in the texts.
    """

    surfaces: Mapping[tuple[str, str], int]
    acronyms: Mapping[str, set[str]]
    words: Mapping[str, int]


class Resolver:
    """Resolves the names that a change affects.

    Args:
        connection: A database with the tables of the state before the change.
        keys: The table of keys.
        settings: The steps. Files of aliases, merges and splits are not supported.
        texts: What the texts of all documents say after the change.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, keys: pyarrow.Table, settings: GraphSettings, texts: Texts
    ) -> None:
        np = load_library("numpy")
        self._connection = connection
        self._keys = keys
        numbers = keys["key"].to_numpy()
        self._positions = np.zeros(numbers.max(initial=-1) + 1, dtype=np.int64)
        self._positions[numbers] = np.arange(len(numbers))
        self._settings = settings
        self._texts = texts
        self._rows: dict[_Id, dict[str, Any]] = {}
        self._fresh: dict[_Id, Key | None] = {}
        self._shorts: defaultdict[str, set[str]] = defaultdict(set)
        for short, by_document in texts.definitions.by_short.items():
            for long in by_document.values():
                self._shorts[long].add(short)
        tokens = connection.execute("SELECT word, n, names FROM tokens").fetchall()
        self._before = WordCounts({}, Counter(), Counter())
        for word, n, names in tokens:
            self._before.counts[word], self._before.names[word] = n, names
        self._groups = WordGroups(self._before.counts) if settings.fuzzy else None
        # What has been compared so far, and with which long forms of acronyms.
        self._asked: set[_Id] = set()
        self._near: set[_Id] = set()
        self._long_forms: Mapping[_Id, str] = {}
        self._known_tokens: set[str] = set()
        self._known_variants: dict[str, tuple[str, ...]] = {}
        self._labels = [""]
        if not settings.types:
            self._labels = [label for (label,) in connection.execute("SELECT DISTINCT label FROM keys").fetchall()]

    def run(self, difference: DocumentChange) -> ResolutionChange | None:
        """Return the affected keys, resolved again; None if too many may be affected."""
        if not self._settings.types:
            self._labels = sorted({*self._labels, *(label for _, label in difference.surfaces)})
        affected = self._first(difference)
        long_forms: dict[_Id, str] = {}
        while True:
            affected |= self._load(
                "SELECT key FROM keys WHERE root IN (SELECT root FROM keys SEMI JOIN ids USING (text, label))",
                ids=affected,
            )
            near = self._compared(affected, long_forms)
            found = self._resolve(affected, near)
            forest = found.forest
            used = long_forms
            long_forms = {_id(forest.keys[at]): forest.keys[long].text for at, long in found.everywhere.items()}
            more = {
                _id(forest.keys[at])
                for merge in forest.merges
                for at in (merge.key, merge.into)
                if (_id(forest.keys[merge.key]) in affected) != (_id(forest.keys[merge.into]) in affected)
            }
            more |= self._with_acronyms(affected, long_forms)
            is_stale = used != long_forms and bool(self._compared(affected, long_forms) - near - affected)
            if is_stale or not more <= affected:
                affected |= more
                continue
            if self._settings.fuzzy:
                rare = self._changed_words(found, affected, difference)
                if rare is None:
                    return None
                if not rare <= affected:
                    affected |= rare
                    continue
            return self._finish(found, affected, long_forms)

    def _first(self, difference: DocumentChange) -> set[_Id]:
        """Return the keys whose mentions or acronyms change, and read the mentions of the former."""
        given = [Surface(text, label, 1) for text, label in sorted(difference.surfaces)]
        scratch = Forest()
        make_keys(scratch, given, self._settings, set())
        changed = {_id(key) for key in scratch.keys}
        affected = changed | {
            (text, label)
            for short, longs in difference.acronyms.items()
            for text in (short, *longs)
            for label in self._labels
        }
        self._load("SELECT key FROM keys SEMI JOIN ids USING (text, label)", ids=affected)
        rows = self._query(
            """
            SELECT s.text, s.label, s.n FROM surfaces s JOIN keys k ON k.key = s.key
            SEMI JOIN ids ON ids.text = k.text AND ids.label = k.label
            UNION SELECT s.text, s.label, s.n FROM surfaces s
            SEMI JOIN mentions ON mentions.text = s.text AND mentions.label = s.label
            """,
            ids=changed,
            mentions=difference.surfaces,
        )
        counts = Counter({(text, label): n for text, label, n in rows})
        counts.update(difference.surfaces)
        self._mentions = [Surface(*one, n) for one, n in sorted(counts.items()) if n]
        self._changed_surfaces = set(difference.surfaces)
        scratch = Forest()
        make_keys(scratch, self._mentions, self._settings, set())
        fresh = {_id(key): key for key in scratch.keys}
        self._fresh = {one: fresh.get(one) for one in changed}
        # The keys that the name of a changed key leads to may appear or vanish.
        for one in changed:
            affected |= {(long, one[1]) for long in self._texts.definitions.by_short.get(one[0], {}).values()}
            key, row = self._fresh[one], self._rows.get(one)
            own = split_own_acronym(key) if key is not None else None
            affected |= {(own[0], one[1])} if own else set()
            affected |= {(row["own"], one[1])} if row and row["own"] else set()
        return affected

    def _key(self, one: _Id) -> Key | None:
        """Return a key that mentions have."""
        if one in self._fresh:
            return self._fresh[one]
        row = self._rows.get(one)
        return Key(*one, row["name"], row["main_label"], row["n"]) if row and row["n"] else None

    def _compared(self, affected: set[_Id], long_forms: Mapping[_Id, str]) -> set[_Id]:
        """Return the keys that affected keys are compared with, in either direction. Those found before are kept."""
        changed = {one for one, _ in long_forms.items() ^ self._long_forms.items()}
        new = {one for one in affected if one not in self._asked or not changed.isdisjoint(self._acronyms(one))}
        if new:
            self._near |= self._find_compared(new, long_forms)
        self._asked |= affected
        self._long_forms = long_forms
        return self._near - affected

    def _acronyms(self, one: _Id) -> set[_Id]:
        """Return the acronyms among the words of a key."""
        key = self._key(one)
        return set() if key is None else {(short, one[1]) for short in _links(key.text, key.name, True)[-1].split(" ")}

    def _find_compared(self, affected: set[_Id], long_forms: Mapping[_Id, str]) -> set[_Id]:
        """Look up the keys that some keys are compared with. Keys that are given may be among them."""
        targets: set[_Id] = set()
        squeezed: set[_Id] = set()
        plain: set[_Id] = set()
        keys = [key for one in affected if (key := self._key(one)) is not None]
        keys += [Key(*one, row["name"]) for one in affected if (row := self._rows.get(one)) is not None]
        known = {one for one in affected if one in self._rows or self._fresh.get(one) is not None}
        keys += [Key(*one, one[0]) for one in affected - known]
        variants = self._variants(keys)
        for key in keys:
            row = key_row(0, key, 0, "", None, partial(_long_form, long_forms, key.label))
            squeezed.add((row[9], key.label))
            plain |= {(row[10], key.label)} if row[10] else set()
            targets |= {(text, key.label) for text in (*row[11:15], *respell(key, variants)) if text}
        for text, label in affected:
            targets |= {(long, label) for long in self._texts.definitions.by_short.get(text, {}).values()}
        near = self._load(
            """
            SELECT key FROM keys SEMI JOIN ids USING (text, label)
            UNION SELECT key FROM keys SEMI JOIN squeezed ON squeezed.text = squeeze AND squeezed.label = keys.label
            UNION SELECT key FROM keys SEMI JOIN plain AS p ON p.text = keys.plain AND p.label = keys.label
            UNION SELECT key FROM keys SEMI JOIN affected AS a ON a.text = head AND a.label = keys.label
            UNION SELECT key FROM keys SEMI JOIN affected AS a ON a.text = own AND a.label = keys.label
            UNION SELECT key FROM keys SEMI JOIN affected AS a ON a.text = turn AND a.label = keys.label
            UNION SELECT key FROM keys SEMI JOIN affected AS a ON a.text = expanded AND a.label = keys.label
            """,
            ids=targets,
            squeezed=squeezed,
            plain=plain,
            affected=affected,
        )
        # Long forms that no mention has exist because of an acronym or of a name with an acronym in brackets.
        bare = {one for one in affected | near if self._key(one) is None}
        creators = {(short, label) for long, label in bare | affected for short in self._shorts.get(long, ())}
        near |= self._load(
            """
            SELECT key FROM keys SEMI JOIN ids USING (text, label)
            UNION SELECT key FROM keys SEMI JOIN bare ON bare.text = own AND bare.label = keys.label
            """,
            ids=creators,
            bare=bare,
        )
        words = {
            (normalise(word), one[1])
            for one in affected | near
            if (key := self._key(one)) is not None
            for word in short_words(key)
        }
        return near | self._load("SELECT key FROM keys SEMI JOIN ids USING (text, label)", ids=words)

    def _variants(self, keys: Iterable[Key]) -> dict[str, tuple[str, ...]]:
        """Return the words that are written like words of keys, before or after the change."""
        if self._groups is None:
            return {}
        tokens = {token for key in keys for token in key.text.split(" ")}
        if not tokens <= self._known_tokens:
            self._groups.add(tokens - self._known_tokens - self._before.counts.keys())
            counts = Counter(dict.fromkeys((*self._before.counts, *tokens), 1))
            words = WordCounts({}, counts, Counter(), self._groups)
            self._known_variants = words.find_variants(tokens | self._known_tokens)
            self._known_tokens |= tokens
        return self._known_variants

    def _resolve(self, affected: set[_Id], near: set[_Id]) -> Resolution:
        forest = Forest()
        for one in sorted(affected | near):
            key = self._key(one)
            if key is not None:
                at = forest.add(*one, key.name)
                forest.keys[at].n, forest.keys[at].main_label = key.n, key.main_label
        found = Resolution(forest, [])
        merge_keys(found, self._texts, self._labels, self._settings, lambda found: self._count(found.forest, affected))
        return found

    def _count(self, forest: Forest, affected: set[_Id]) -> WordCounts:
        """Return the words of all keys after the change."""
        words = WordCounts(self._texts.words, self._before.counts.copy(), self._before.names.copy(), self._groups)
        for one in affected:
            if (row := self._rows.get(one)) is not None:
                words.add(Key(*one, row["name"], "", row["n"]), -1)
            if (at := forest.find(*one)) is not None:
                words.add(forest.keys[at], 1)
        return words

    def _with_acronyms(self, affected: set[_Id], long_forms: Mapping[_Id, str]) -> set[_Id]:
        """Return the keys with an acronym as a word that no longer means the same."""
        changed = {
            one for one in affected if long_forms.get(one) != (self._rows[one]["long"] if one in self._rows else None)
        }
        return self._load(
            "SELECT key FROM keys SEMI JOIN ids ON list_contains(string_split(shorts, ' '), ids.text)", ids=changed
        )

    def _changed_words(self, found: Resolution, affected: set[_Id], difference: DocumentChange) -> set[_Id] | None:
        """Return the keys with a word that is now a misspelling, or no longer; None if the words cannot be compared."""
        assert found.words is not None
        after, before = found.words, WordCounts(self._words_before(difference), self._before.counts, self._before.names)
        tokens = {token for one in affected for token in one[0].split(" ")}
        if after.fills_a_group(token for token in tokens if bool(after.counts[token]) != bool(before.counts[token])):
            return None
        changed = tokens | {word for text in difference.words for word in (text, text.removesuffix("s"))}
        for one in affected:
            for name in filter(None, (self._rows.get(one, {}).get("name"), getattr(self._key(one), "name", None))):
                changed |= {singular(word.casefold()) for word in re.split(r"[\s-]+", name)}
        rare = {
            min((word, other), key=lambda one: after.counts[one])
            for word, others in after.find_variants(word for word in changed if after.counts[word]).items()
            for other in others
            if bool(after.refuse_word(word, other)) != bool(before.refuse_word(word, other))
        }
        return self._load(
            "SELECT key FROM keys SEMI JOIN ids ON list_contains(string_split(keys.text, ' '), ids.text)",
            ids={(word, "") for word in rare},
        )

    def _words_before(self, difference: DocumentChange) -> Mapping[str, int]:
        return {**self._texts.words} | {
            word: self._texts.words.get(word, 0) - n for word, n in difference.words.items()
        }

    def _finish(self, found: Resolution, affected: set[_Id], long_forms: Mapping[_Id, str]) -> ResolutionChange:
        forest = found.forest
        (free,) = self._query("SELECT coalesce(max(key) + 1, 0) FROM keys")[0]
        numbers: dict[int, int] = {}
        for at, key in enumerate(forest.keys):
            row = self._rows.get(_id(key))
            numbers[at] = free + at if row is None else row["key"]
        own = {at: numbers[at] for at, key in enumerate(forest.keys) if _id(key) in affected}
        main = forest.main_keys()
        rows = []
        for at in own:
            key, root = forest.keys[at], forest.root(at)
            step = forest.step(at, main[root])
            lookup = partial(_long_form, long_forms, key.label)
            rows.append(key_row(own[at], key, numbers[root], step, long_forms.get(_id(key)), lookup))
        old = {self._rows[one]["key"] for one in affected if one in self._rows}
        local = [(at, numbers[key], numbers[other]) for (at, key), other in found.local.items() if key in own]
        surfaces, key_of = self._surfaces(forest, own)
        found.key_of = [key_of[surface.text, surface.label] for surface in surfaces]
        changed = [
            (s.text, s.label, s.n, -1 if key_of[s.text, s.label] < 0 else numbers[key_of[s.text, s.label]])
            for s in self._mentions
            if (s.text, s.label) in self._changed_surfaces
        ]
        pa, np = load_library("pyarrow"), load_library("numpy")
        self._register(gone=self._changed_surfaces)
        self._connection.register("old_keys", pa.table({"key": sorted(old)}))
        is_kept = np.ones(self._keys.num_rows, dtype=bool)
        is_kept[self._positions[sorted(old)]] = False
        tables = {"keys": pa.concat_tables([self._keys.filter(pa.array(is_kept)), make_table("keys", rows)])}
        for name, kept, new in (
            ("surfaces", "SELECT * FROM surfaces ANTI JOIN gone USING (text, label)", changed),
            ("local", "SELECT * FROM local ANTI JOIN old_keys USING (key)", local),
        ):
            self._connection.register("new_rows", make_table(name, new))
            tables[name] = self._connection.sql(f"{kept} UNION ALL SELECT * FROM new_rows").to_arrow_table()
        if found.words is not None:
            tokens = found.words.counts
            names = found.words.names
            words = (word for word in {**tokens, **names} if tokens[word] or names[word])
            tables["tokens"] = make_table("tokens", ((word, tokens[word], names[word]) for word in words))
        old_roots = {self._rows[one]["root"] for one in affected if one in self._rows}
        before = {row["key"]: (row["root"], row["step"]) for row in map(self._rows.get, affected) if row is not None}
        after = {row[0]: (row[6], row[7]) for row in rows}
        moved = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        return ResolutionChange(found, own, surfaces, old_roots, moved, tables)

    def _surfaces(self, forest: Forest, own: Mapping[int, int]) -> tuple[list[Surface], dict[tuple[str, str], int]]:
        """Return the mentions of affected keys, and the key of each of these and of all changed mentions."""
        position = {number: at for at, number in own.items()}
        self._connection.register("own_keys", load_library("pyarrow").table({"key": sorted(position)}))
        key_of: dict[tuple[str, str], int] = {}
        found: dict[tuple[str, str], Surface] = {}
        for text, label, n, key in self._query("SELECT * FROM surfaces SEMI JOIN own_keys USING (key)"):
            found[text, label] = Surface(text, label, n)
            key_of[text, label] = position[key]
        for one in self._changed_surfaces:
            found.pop(one, None)
        scratch = Forest()
        for surface, key in zip(self._mentions, make_keys(scratch, self._mentions, self._settings, set()), strict=True):
            at = forest.find(scratch.keys[key].text, scratch.keys[key].label) if key >= 0 else None
            key_of[surface.text, surface.label] = -1 if at is None else at
            if at is not None:
                found[surface.text, surface.label] = surface
        return [found[one] for one in sorted(found)], key_of

    def _load(self, sql: str, **ids: Iterable[_Id]) -> set[_Id]:
        """Read the rows of keys whose numbers a query returns, and return their ids."""
        numbers = [number for (number,) in self._query(sql, **ids)]
        rows = self._keys.take(self._positions[numbers]).to_pylist() if numbers else []
        self._rows |= {(row["text"], row["label"]): row for row in rows}
        return {(row["text"], row["label"]) for row in rows}

    def _query(self, sql: str, **ids: Iterable[_Id]) -> list[tuple[Any, ...]]:
        self._register(**ids)
        rows: list[tuple[Any, ...]] = self._connection.execute(sql).fetchall()
        return rows

    def _register(self, **ids: Iterable[_Id]) -> None:
        for name, pairs in ids.items():
            texts, labels = zip(*pairs, strict=True) if (pairs := list(pairs)) else ((), ())
            pa = load_library("pyarrow")
            columns = {"text": pa.array(list(texts), pa.string()), "label": pa.array(list(labels), pa.string())}
            self._connection.register(name, pa.table(columns))


def _id(key: Key) -> _Id:
    return key.text, key.label


def _long_form(long_forms: Mapping[_Id, str], label: str, short: str) -> str | None:
    return long_forms.get((short, label))
