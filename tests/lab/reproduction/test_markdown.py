import json
from dataclasses import replace

import pytest

from cascade_srn.lab.reproduction.measures import HELD, NOT_SHOWN, Verdict
from cascade_srn.lab.reproduction.results import QUICK_NOTE, SeedValues, TableResult, draw_table, format_result
from cascade_srn.lab.reproduction.tables import COUNT, ERROR_KINDS, SPEED, TABLES, Claim

ABOUT = {
    "encoder": "some/encoder", "data": "data/scierc", "n_documents": 100, "n_sentences": 551,
    "symmetric": "directed", "quick": False, "n_seeds": 2, "resample": "documents", "n_resamples": 1000,
    "command": "cascade-srn reproduce all",
}  # fmt: skip
TIMES = {"median_s": 1.0, "times_s": [1.0], "n_sentences": 551, "n_words": 13000, "n_entities": 1665, "n_triples": 714}
RATES = {
    "environment": {"gpu": "NVIDIA H200", "cpu": "x", "threads": 1, "precision": "bf16"},
    "settings": {"batch_words": 4096, "repeats": 5},
    "rows": {"early": {**TIMES, "sentences_per_second": 551.0}},
}


def _result(name, values=(0.66, 0.68), **changes):
    table = TABLES[name]
    kinds = {"speed": SPEED, **dict.fromkeys(ERROR_KINDS, COUNT)}
    figures = {
        variant: {column: SeedValues(values, kinds.get(column, "score")) for column in table.our_columns}
        for variant in table.variants
    }
    verdicts = (
        Verdict(Claim("early beats late", "re", "early", "late"), 0.35, 0.3, -0.0001, NOT_SHOWN, -0.02, 0.03, 0.4, 2.0),
        Verdict(Claim("it is faster", "speed", "late", "early", paper=False), 9.0, 3.0, 3.0, HELD, 2.51, 3.5),
        Verdict(Claim("fewer", "RNF", "early", "pfn", "fewer"), 70.5, 90, -19.5, HELD, -30.2, -9.7, 2 / 1001),
    )
    return replace(TableResult(table, figures, verdicts, ABOUT), **changes)


def _cells(text, opening):
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {opening} |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_figures_next_to_published_ones():
    text = format_result(_result("ablation"))
    assert text.startswith("## Ablation study, early fusion\n\n`tab:ablation`")
    for value in ("some/encoder", "data/scierc", "100 documents", "551 sentences", "2 seeds", ABOUT["command"]):
        assert value in text
    assert "| NER, paper | ours | RE strict, paper | ours | RE boundaries, ours |" in text
    assert _cells(text, "encoder: BiSRN") == ["69.1", "67.0 ± 1.4", "36.8", "67.0 ± 1.4", "67.0 ± 1.4"]
    # The independent model has no relations.
    assert _cells(text, "independent") == ["67.5", "67.0 ± 1.4", "–", "–", "–"]
    assert _cells(text, "text marker: none (ours)")[:2] == ["–", "67.0 ± 1.4"]
    assert QUICK_NOTE not in text
    assert QUICK_NOTE in format_result(_result("ablation", about={**ABOUT, "quick": True}))


def test_columns_of_the_paper_only():
    text = format_result(_result("main"))
    assert " | ACE05 NER | ACE05 RE |" in text
    assert _cells(text, "Structured Perceptron") == ["80.8", "49.5"]
    shared, paper_only = (line for line in text.splitlines() if line.startswith("| PFN |"))
    assert shared == "| PFN | 66.8 | 67.0 ± 1.4 | 38.4 | 67.0 ± 1.4 | 67.0 ± 1.4 |"
    assert paper_only == "| PFN | 89.0 | 66.8 |"


def test_claims():
    text = format_result(_result("encoder"))
    # Zero has no sign, and published differences are in the unit of the paper.
    assert _cells(text, "early beats late") == ["RE strict", "+2.0", "0.0", "-2.0 to +3.0", "0.4", "not shown", "yes"]
    assert _cells(text, "it is faster (ours)") == ["sentences/s", "–", "3.0×", "2.5× to 3.5×", "–", "held", "–"]
    # 2 / 1,001 is the smallest p-value of a thousand resamples.
    assert _cells(text, "fewer") == ["RNF", "–", "-20", "-30 to -10", "≤ 0.002", "held", "–"]
    assert "1,000 resamples of the test documents" in text
    assert "1/2 of their variance" in text


def test_one_seed_has_no_deviation():
    shares = {column: SeedValues((0.7,)) for column in TABLES["errors"].columns}
    errors = {**shares, **{kind: SeedValues((70.0,), COUNT) for kind in ERROR_KINDS}}
    figures = dict.fromkeys(TABLES["errors"].variants, errors)
    text = format_result(_result("errors", figures=figures, about={**ABOUT, "n_seeds": 1}))
    assert "one seed" in text
    assert _cells(text, "PFN") == ["70"] * 6 + ["70.0"] * 6
    assert "seeds" not in text
    assert _cells(format_result(_result("errors")), "PFN") == ["1 ± 0"] * 6 + ["67.0 ± 1.4"] * 6


def test_speed_settings():
    text = format_result(_result("fusion", values=(0.5,), speed=RATES))
    for value in ("551 sentences", "13,000 words", "4,096 words", "bf16", "5 runs", "NVIDIA H200"):
        assert value in text
    assert "early 1,665 and 714" in text
    assert _cells(text, "late")[4:] == ["295.04", "0"]


def test_json():
    record = json.loads(json.dumps(_result("ablation").to_dict()))
    row = next(row for row in record["rows"] if row["variant"] == "independent")
    assert row["paper"] == {"ner": 67.5}
    assert row["ours"] == {
        "ner": {"mean": 0.67, "sd": pytest.approx(0.014142, abs=1e-6), "n": 2, "values": [0.66, 0.68]}
    }
    assert record["label"] == "tab:ablation"
    assert [claim["outcome"] for claim in record["claims"]] == ["not shown", "held", "held"]
    assert record["about"]["encoder"] == "some/encoder"


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.slow
def test_plots(name, tmp_path):
    pytest.importorskip("matplotlib")
    # One table shows that a deviation is drawn.
    for values in ((0.6, 0.7), (0.6,))[: 2 if name == "encoder" else 1]:
        draw_table(_result(name, values=values), tmp_path / f"{len(values)}.png")
    pictures = [path.read_bytes() for path in tmp_path.iterdir()]
    assert all(picture.startswith(b"\x89PNG") for picture in pictures)
    assert len(set(pictures)) == (2 if name == "encoder" else 1)
