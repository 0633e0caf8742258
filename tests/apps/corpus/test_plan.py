from itertools import pairwise
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from cascade_srn.apps.corpus.inputs import InputSettings, RowReader, find_input_files
from cascade_srn.apps.corpus.shards import InputFile, Shard, plan_shards, unit_sizes

SIZES = st.lists(st.lists(st.integers(0, 30), max_size=20), max_size=8)


def make_files(sizes, settings):
    """Make the records of files by the sizes of their rows, as counting does."""
    files = []
    for at, rows in enumerate(sizes):
        blocks, count, size, offset = [], 0, 0, 0
        for row, n_bytes in enumerate(rows):
            if not blocks or count == settings.max_documents or size + n_bytes > settings.unit_bytes:
                blocks.append((row, offset, row))
                count = size = 0
            count, size, offset = count + 1, size + n_bytes, offset + n_bytes
        blocks.append((len(rows), offset, len(rows)))
        files.append(InputFile(f"/{at}", "jsonl", len(rows), offset, f"{at}", f"{at}", tuple(blocks)))
    return files


@given(SIZES, st.integers(1, 12), st.integers(1, 60), st.none() | st.integers(1, 40))
def test_every_row_is_in_one_shard_within_the_bounds(sizes, shard_documents, shard_bytes, limit):
    settings = InputSettings(shard_documents=shard_documents, shard_bytes=shard_bytes, limit=limit)
    files = make_files(sizes, settings)
    shards = plan_shards(files, settings)
    rows = [(at, row) for shard in shards for at, first, stop in shard.parts for row in range(first, stop)]
    assert rows == [(at, row) for at, size in enumerate(sizes) for row in range(len(size))][:limit]
    for shard in shards:
        n_bytes = sum(sum(sizes[at][first:stop]) for at, first, stop in shard.parts)
        assert 0 < shard.n_rows <= shard_documents
        assert n_bytes <= shard_bytes or shard.n_rows == 1 or n_bytes == max(map(max, filter(None, sizes)))
    assert len({shard.id for shard in shards}) == len(shards)
    assert [shard.id for shard in shards] == sorted(shard.id for shard in shards)
    assert plan_shards(files, settings) == shards


@given(SIZES, st.integers(1, 12), st.integers(1, 60))
def test_two_shards_in_a_row_do_not_fit_into_one(sizes, shard_documents, shard_bytes):
    settings = InputSettings(shard_documents=shard_documents, shard_bytes=shard_bytes)
    shards = plan_shards(make_files(sizes, settings), settings)
    for before, after in pairwise(shards):
        at, first, stop = after.parts[0]
        n_bytes = sum(sum(sizes[at][first:stop]) for at, first, stop in (*before.parts, (at, first, stop)))
        assert before.n_rows + stop - first > shard_documents or n_bytes > shard_bytes


@given(SIZES, st.lists(st.integers(20, 200), min_size=2, max_size=3), st.none() | st.integers(1, 40))
def test_units_do_not_depend_on_the_size_of_shards(sizes, measured, limit):
    with mock.patch("cascade_srn.apps.corpus.shards.UNIT_BYTES", 20):
        files, found = make_files(sizes, InputSettings()), []
        for shard_bytes in measured:
            settings = InputSettings(shard_bytes=shard_bytes, limit=limit)
            shards = plan_shards(files, settings)
            units = [unit_sizes(shard, files, settings) for shard in shards]
            assert [sum(unit) for unit in units] == [shard.n_rows for shard in shards]
            assert all(len(unit) == 1 for shard, unit in zip(shards, units, strict=True) if len(shard.parts) > 1)
            found.append([size for unit in units for size in unit])
        assert all(one == found[0] for one in found)


@given(st.lists(st.lists(st.text("ab", max_size=20), max_size=9), min_size=1, max_size=4).filter(any))
def test_counted_files_are_cut_within_the_bounds(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("plan")
    for at, rows in enumerate(texts):
        (folder / f"{at}.jsonl").write_text("".join(f'\n{{"text": "{text}"}}\n' for text in rows))
    settings = InputSettings(shard_documents=4, shard_bytes=70)
    files = find_input_files(str(folder), settings)
    shards = plan_shards(files, settings)
    with RowReader(files, settings) as reader:
        found = [[row.text for row in reader.read(shard)] for shard in shards]
    assert [text for shard in found for text in shard] == [text for rows in texts for text in rows]
    # A record of n characters takes n + 14 bytes with its two line breaks.
    assert all(len(shard) <= 4 and sum(len(text) + 14 for text in shard) <= 70 for shard in found)


def test_ids_change_with_the_content_and_the_range():
    settings = InputSettings(shard_documents=2)
    (file,) = make_files([[1] * 4], settings)
    other = InputFile(file.address, file.format, file.n_rows, file.n_bytes, "changed", file.name, file.blocks)
    before, after = plan_shards([file], settings), plan_shards([other], settings)
    assert before[0] == Shard(before[0].id, ((0, 0, 2),))
    assert before[0].id.startswith("00000-")
    assert not {shard.id.split("-")[1] for shard in before} & {shard.id.split("-")[1] for shard in after}
    limited = plan_shards([file], InputSettings(shard_documents=2, limit=3))
    assert limited[0] == before[0]
    assert limited[1].id != before[1].id
