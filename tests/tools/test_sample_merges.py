import csv
import sys

import pytest
from tests.apps.graph.documents import DOCUMENTS, document, write_lines

from tools import sample_merges

pytest.importorskip("rapidfuzz")
pytest.importorskip("pyarrow")


def rows(path):
    with path.open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle, delimiter="\t"))


def test_a_seed_gives_the_same_sample(tmp_path):
    extra = document("e", ("The [words embedding/M] and [word embeddings/M] and [words embedding/M] .", []))
    lines = write_lines([*DOCUMENTS, extra], tmp_path / "a.jsonl")
    for name in ("one", "two"):
        sample_merges.draw([str(lines)], 7, tmp_path / f"{name}.tsv", tmp_path / f"{name}-acronyms.tsv")
    assert (tmp_path / "one.tsv").read_bytes() == (tmp_path / "two.tsv").read_bytes()
    merged = {
        (row["first"], row["second"], row["step"]) for row in rows(tmp_path / "one.tsv") if row["kind"] == "merged"
    }
    assert merged == {("CRFs", "CRF", "text"), ("word embeddings", "words embedding", "fuzzy")}
    acronyms = rows(tmp_path / "one-acronyms.tsv")
    assert [(row["first"], row["second"]) for row in acronyms] == [("NER", "named entity recognition")]
    # Ids of documents stay out of the sample.
    assert "2019" not in (tmp_path / "one-acronyms.tsv").read_text()


def test_the_summary_counts_judgements(tmp_path, capsys, monkeypatch):
    path = tmp_path / "pairs.tsv"
    lines = ["\t".join(sample_merges.COLUMNS)]
    lines += [f"merged\ta\tb\tM\tM\tfuzzy\tx\t1.0\t{judgement}" for judgement in ("same", "same", "different", "same")]
    path.write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(sys, "argv", ["sample_merges.py", "--summary", str(path)])
    sample_merges.main()
    assert capsys.readouterr().out.count("3 of 4 same (75.0 %)") == 2
    path.write_text(path.read_text().replace("different", ""))
    with pytest.raises(SystemExit):
        sample_merges.main()
