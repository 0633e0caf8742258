"""The growth exponent on costs whose growth is known, the sentences made for it, and the picture."""

import sys
from itertools import pairwise

import pytest
from tests.small_models import SCHEMA, small_model

from cascade_srn.errors import CascadeError
from cascade_srn.lab.benchmarks.growth import _exponents, _Sentences, growth_exponent, plot_growth, require_matplotlib
from cascade_srn.lab.benchmarks.workload import read_corpus

SIZES = [8, 16, 32, 64, 128, 256, 512]


@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.5, 2.0])
def test_a_power_is_found_again(exponent):
    assert growth_exponent(SIZES, [0.003 * size**exponent for size in SIZES]) == pytest.approx(exponent, abs=1e-9)


def test_the_final_exponent_sees_past_fixed_costs():
    rows = [{"series": "s", "size": size, "median_s": 1000 + size**2} for size in SIZES]
    found = _exponents(rows)["s"]
    assert found["overall"] < 1.5
    assert found["final"] == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize(("n_words", "n_entities"), [(8, 4), (9, 9), (128, 64), (10, 7), (5, 1)])
def test_sentences_have_the_words_and_the_entities_asked_for(n_words, n_entities):
    made = _Sentences(read_corpus(None, 20), small_model("swift"))
    sentence = made.example(n_words, n_entities).sentence
    assert len(sentence) == n_words
    assert len({(e.start, e.end) for e in sentence.entities}) == n_entities
    assert {e.label for e in sentence.entities} <= set(SCHEMA.entity_types)
    ordered = sorted(sentence.entities)
    assert all(one.end <= other.start for one, other in pairwise(ordered))


@pytest.mark.slow
def test_the_picture(tmp_path):
    rows = [{"series": name, "size": size, "median_s": size / 1000} for name in ("a", "b") for size in (1, 10)]
    result = {
        "rows": rows,
        "summary": {"exponents": {"a": {"overall": 1.0, "final": 1.0}}},
        "settings": {"preset": "swift"},
        "environment": {"gpu": None, "cpu": "a processor", "precision": "float32"},
    }
    path = plot_growth(result, tmp_path / "new" / "growth.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(CascadeError, match=r"cascade-srn\[report\]"):
        require_matplotlib()
