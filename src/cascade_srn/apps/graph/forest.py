"""Keys and their merges: a union-find structure that remembers why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from cascade_srn.apps.graph.normalise import is_acronym

# A node is named after its spelled-out form if at least this share of its mentions spell it out.
_SPELLED_SHARE = 0.1


@dataclass(slots=True)
class Key:
    """Forms with the same normalised text, and the same type if types are kept apart.

    Attributes:
        text: Normalised text.
        label: Entity type; empty if types are merged.
        name: The most frequent form.
        main_label: The most frequent entity type.
        n: Number of mentions; 0 for a long form or an alias that no mention has.
    """

    text: str
    label: str
    name: str
    main_label: str = ""
    n: int = 0


@dataclass(frozen=True, slots=True)
class Merge:
    """A key that was merged with another one.

    Attributes:
        key: Position of the key.
        into: Position of the other key.
        step: Step of the resolution.
        reason: Why, in a phrase.
        score: Similarity from 0 to 1.
    """

    key: int
    into: int
    step: str
    reason: str
    score: float = 1.0


@dataclass
class Forest:
    """Keys in sets, each with a root. Keys that the user keeps apart never get into one set.

    Attributes:
        keys: The keys.
        merges: The merges so far, in their order.
        first: The first merge of each key, even if another one has already put it into the same set.
    """

    keys: list[Key] = field(default_factory=list)
    merges: list[Merge] = field(default_factory=list)
    first: dict[int, Merge] = field(default_factory=dict)
    _index: dict[tuple[str, str], int] = field(default_factory=dict)
    _parents: list[int] = field(default_factory=list)
    _apart: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    _pinned: set[int] = field(default_factory=set)
    _alone: set[int] = field(default_factory=set)

    def find(self, text: str, label: str = "") -> int | None:
        """Return the position of a key, or None."""
        return self._index.get((text, label))

    def add(self, text: str, label: str, name: str) -> int:
        """Return the position of a key, which is added if it is new."""
        found = self._index.get((text, label))
        if found is None:
            found = self._index[text, label] = len(self.keys)
            self.keys.append(Key(text, label, name))
            self._parents.append(found)
        return found

    def root(self, key: int) -> int:
        """Return the root of the set of a key."""
        parents = self._parents
        while parents[key] != key:
            parents[key] = parents[parents[key]]
            key = parents[key]
        return key

    def keep_apart(self, first: int, second: int) -> None:
        """Never put two keys into one set."""
        first, second = self.root(first), self.root(second)
        self._apart[first].add(second)
        self._apart[second].add(first)

    def isolate(self, key: int) -> None:
        """Never put a key into one set with any other."""
        self._alone.add(self.root(key))

    def pin(self, key: int) -> None:
        """Make a key the root of its set from now on. Two pinned keys are not merged by later steps."""
        self._pinned.add(self.root(key))

    def merge(self, merge: Merge, *, forced: bool = False) -> bool:
        """Put two keys into one set, whose root is that of ``merge.into``, or one that is pinned.

        Args:
            merge: The merge.
            forced: Merge even if both roots are pinned.

        Returns:
            Whether they were in different sets and may be merged.
        """
        lower, upper = self.root(merge.key), self.root(merge.into)
        if lower == upper:
            self.first.setdefault(merge.key, merge)
            return False
        if upper in self._apart.get(lower, ()) or self._alone & {lower, upper}:
            return False
        both = {lower, upper} <= self._pinned
        if both and not forced:
            return False
        if lower in self._pinned and not both:
            lower, upper = upper, lower
        self._parents[lower] = upper
        for other in self._apart.pop(lower, ()):
            self._apart[other].discard(lower)
            self._apart[other].add(upper)
            self._apart[upper].add(other)
        self.merges.append(merge)
        self.first.setdefault(merge.key, merge)
        return True

    def merge_all(self, merges: Iterable[Merge]) -> None:
        """Merge in order."""
        for merge in merges:
            self.merge(merge)

    def main_keys(self) -> dict[int, int]:
        """Return the key that gives a set its name, by root.

        It is the pinned key, or else the most frequent one. A spelled-out name is preferred to an acronym, unless fewer
        than one in ten of the mentions have it: "named entity recognition", but "BERT", and not "BERT model".
        """
        sets: defaultdict[int, list[int]] = defaultdict(list)
        for at in range(len(self.keys)):
            sets[self.root(at)].append(at)
        found = {}
        for root, members in sets.items():
            used = [at for at in self.by_frequency(members) if self.keys[at].n]
            bare = [at for at in used if self._is_bare(at)]
            spelled = [at for at in bare if not is_acronym(self.keys[at].name)]
            if root in self._pinned or not used:
                found[root] = root
            elif spelled and self._share_spelled_out(used) >= _SPELLED_SHARE:
                found[root] = spelled[0]
            else:
                found[root] = (bare or used)[0]
        return found

    def _share_spelled_out(self, keys: Iterable[int]) -> float:
        """Return the share of the mentions that are neither an acronym nor an acronym with a noun."""
        found = [self.keys[at] for at in keys if not self._has_head(at)]
        n_spelled = sum(key.n for key in found if not is_acronym(key.name.split()[0]))
        return n_spelled / max(sum(key.n for key in found), 1)

    def _is_bare(self, key: int) -> bool:
        """Return whether a name has neither an acronym in brackets nor a noun that adds nothing."""
        return "(" not in self.keys[key].name and not self._has_head(key)

    def _has_head(self, key: int) -> bool:
        """Return whether a name, or the one that it is an abbreviation of, has a noun that adds nothing."""
        merge = self.first.get(key)
        if merge is not None and merge.step == "acronym":
            merge = self.first.get(merge.into)
        return merge is not None and merge.step == "head"

    def step(self, key: int, main: int) -> str:
        """Return the step that brought a key into the set of a main key."""
        merge = self.first.get(key) or self.first.get(main)
        return "text" if key == main or merge is None else merge.step

    def by_frequency(self, members: Iterable[int]) -> list[int]:
        """Return keys with the most frequent first. The order does not depend on that of the input."""
        return sorted(members, key=lambda at: (-self.keys[at].n, self.keys[at].text, self.keys[at].label))
