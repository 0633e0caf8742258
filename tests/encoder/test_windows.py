from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cascade_srn.encoder.windows import FewShapes, FullPasses, LeastWork


def cost(sizes: list[int], cuts: tuple[int, ...], overhead: int) -> int:
    edges = [0, *cuts, len(sizes)]
    return sum((end - begin) * sizes[begin] + overhead for begin, end in pairwise(edges))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=9), st.integers(0, 60))
def test_no_division_is_cheaper(sizes: list[int], overhead: int) -> None:
    sizes.sort(reverse=True)
    passes = LeastWork(overhead).divide(np.array(sizes), 99)
    cuts = tuple(np.cumsum([n for n, _ in passes])[:-1].tolist())
    places = range(1, len(sizes))
    options = [chosen for n in range(len(sizes)) for chosen in combinations(places, n)]
    assert cost(sizes, cuts, overhead) == min(cost(sizes, chosen, overhead) for chosen in options)
    assert sum(n for n, _ in passes) == len(sizes)
    assert [width for _, width in passes] == [sizes[begin] for begin in (0, *cuts)]


def test_known_divisions() -> None:
    cases: list[tuple[list[int], int, list[tuple[int, int]]]] = [
        ([], 10, []),
        ([7, 7, 7], 0, [(3, 7)]),
        ([90, 10, 10], 100, [(1, 90), (2, 10)]),
        ([90, 10, 10], 200, [(3, 90)]),
    ]
    for sizes, overhead, expected in cases:
        assert LeastWork(overhead).divide(np.array(sizes, dtype=np.int64), 99) == expected


@given(st.lists(st.integers(1, 60), min_size=1, max_size=30), st.integers(1, 9))
def test_few_shapes_contain_all_windows(sizes: list[int], n_windows: int) -> None:
    sizes.sort(reverse=True)
    passes = FewShapes(n_windows, multiple=8).divide(np.array(sizes), 60)
    assert len(passes) == -(-len(sizes) // n_windows)
    assert {n for n, _ in passes} == {n_windows}
    for at, (_, width) in enumerate(passes):
        inside = sizes[at * n_windows : (at + 1) * n_windows]
        assert max(inside) <= width <= 60
        # Not wider than the next multiple or the limit.
        assert width == 60 or (width % 8 == 0 and width - max(inside) < 8)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=200), st.integers(1, 600))
def test_full_passes_contain_all_windows(sizes: list[int], max_pieces: int) -> None:
    sizes.sort(reverse=True)
    passes = FullPasses(max_pieces).divide(np.array(sizes), 60)
    at = 0
    for number, (n_windows, width) in enumerate(passes):
        inside = sizes[at : at + n_windows]
        full = max(1, max_pieces // width)
        assert max(inside) <= width <= 60
        assert width == 60 or (width % 8 == 0 and width - max(inside) < 8)
        assert n_windows == full if number < len(passes) - 1 else n_windows <= full
        # Less than an eighth of a pass is empty.
        assert len(inside) > n_windows - -(-full // 8)
        at += n_windows
    assert at >= len(sizes)


def test_batches_of_similar_text_have_the_same_full_passes() -> None:
    shapes = [FullPasses(512).divide(np.full(n, size), 512) for n, size in ((40, 17), (37, 24), (38, 20))]
    assert shapes == [[(21, 24), (21, 24)], [(21, 24), (18, 24)], [(21, 24), (18, 24)]]


def test_no_windows_need_no_pass() -> None:
    assert FullPasses(512).divide(np.zeros(0, dtype=np.int64), 512) == []
