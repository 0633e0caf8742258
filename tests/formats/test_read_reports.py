import json

import pytest

from cascade_srn.formats.registry import read_documents
from cascade_srn.formats.reports import may_be_missed


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("field 'entites' not read", True),
        ("attribute line not read", True),
        ("field 'clusters' not read", False),
        ("relation repeated", False),
    ],
)
def test_what_may_be_missed(kind, expected):
    assert may_be_missed(kind) is expected


def test_what_corpora_hold_besides_is_noted_under_that_name(tmp_path):
    record = {"doc_key": "a", "sentences": [["One"]], "events": [], "entites": []}
    (tmp_path / "data.json").write_text(json.dumps(record), encoding="utf-8")
    stream = read_documents(tmp_path / "data.json", "dygie")
    list(stream)
    assert [may_be_missed(kind) for kind in stream.report.noted] == [False, True]
