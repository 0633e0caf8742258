"""Cut the input into shards by deterministic rules."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from itertools import pairwise

from cascade_srn.apps.corpus.fields import InputSettings
from cascade_srn.apps.corpus.shards import InputFile, Shard

_Part = tuple[int, int, int]


def plan_shards(files: Sequence[InputFile], settings: InputSettings) -> tuple[Shard, ...]:
    """Cut the rows of all files into shards within the bounds of the settings.

    The rows stay in order. A file above the bounds is cut by the blocks that were found when it was counted. Files and
    last blocks below the bounds are packed together. The same files and settings always give the same shards.
    """
    shards = list(_pack(files, settings))
    width = max(5, len(str(len(shards) - 1)))
    return tuple(Shard(f"{at:0{width}}-{_hash(files, parts)}", parts) for at, parts in enumerate(shards))


def _pack(files: Sequence[InputFile], settings: InputSettings) -> Iterator[tuple[_Part, ...]]:
    parts: list[_Part] = []
    n_rows = n_bytes = 0
    for part, size in _cut(files, settings.limit):
        rows = part[2] - part[1]
        if parts and (n_rows + rows > settings.shard_documents or n_bytes + size > settings.shard_bytes):
            yield _join(parts)
            parts, n_rows, n_bytes = [], 0, 0
        parts.append(part)
        n_rows, n_bytes = n_rows + rows, n_bytes + size
    if parts:
        yield _join(parts)


def _cut(files: Sequence[InputFile], limit: int | None) -> Iterator[tuple[_Part, int]]:
    """Yield the blocks of all files with their sizes, up to a number of rows."""
    left = sum(file.n_rows for file in files) if limit is None else limit
    for at, file in enumerate(files):
        for (first, start, _), (stop, end, _) in pairwise(file.blocks):
            rows = min(stop - first, left)
            if rows == 0:
                return
            left -= rows
            yield (at, first, first + rows), end - start


def _join(parts: list[_Part]) -> tuple[_Part, ...]:
    """Join parts of the same file that follow each other."""
    joined: list[_Part] = []
    for part in parts:
        if joined and joined[-1][0] == part[0]:
            joined[-1] = (part[0], joined[-1][1], part[2])
        else:
            joined.append(part)
    return tuple(joined)


def _hash(files: Sequence[InputFile], parts: tuple[_Part, ...]) -> str:
    ranges = [(files[at].sha256, files[at].name, first, stop) for at, first, stop in parts]
    return hashlib.sha256(json.dumps(ranges).encode()).hexdigest()[:8]
