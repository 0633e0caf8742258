"""Which sentences go through the model together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def by_word_budget(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Groups of positions of similar length, each of at most ``budget`` words with its padding.

    Longest first, so that a batch that does not fit into memory shows at once; one sentence longer than the
    budget is a group of its own.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    group: list[int] = []
    for position in order:
        # The group's first member is its longest, and what all others are padded to.
        if group and lengths[group[0]] * (len(group) + 1) > budget:
            yield group
            group = []
        group.append(position)
    if group:
        yield group
