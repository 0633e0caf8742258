import json
import re

import pytest

from cascade_srn.formats.registry import read_documents


def segment(text):
    """A segmenter for tests: a line is a sentence, a word is letters and digits or another character."""
    sentences = []
    for line in re.finditer(r"[^\n]+", text):
        words = [(line.start() + m.start(), line.start() + m.end()) for m in re.finditer(r"\w+|[^\w\s]", line[0])]
        if words:
            sentences.append(words)
    return sentences


@pytest.fixture
def segmenter():
    return segment


@pytest.fixture
def lines_file(tmp_path):
    """Write records as JSON lines and give the path."""

    def make(*records, name="data.json"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        return path

    return make


@pytest.fixture
def array_file(tmp_path):
    """Write records as one JSON array and give the path."""

    def make(*records, name="data.json"):
        path = tmp_path / name
        path.write_text(json.dumps(list(records)), encoding="utf-8")
        return path

    return make


@pytest.fixture
def lenient():
    """Read with strict=False; the documents and the report."""

    def read(path, format=None, **options):
        stream = read_documents(path, format, strict=False, **options)
        return list(stream), stream.report

    return read


def with_value(record, path, value):
    """A deep copy of a record with another value at a path of keys; without the field where it is ``...``."""
    changed = json.loads(json.dumps(record))
    at = changed
    for key in path[:-1]:
        at = at[key]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return changed


@pytest.fixture
def changed():
    return with_value
