"""Entities in and out of triples on SciERC: 380 of 1685 are out of triples, and the paper gives 22 %."""

from pathlib import Path

import pytest

from cascade_srn import Schema, read_documents
from cascade_srn.evaluation import analyse

SCIERC = Path(__file__).parents[2].parent / "shared" / "data" / "scierc"
TEST = SCIERC / "spert" / "test.json"


@pytest.fixture(scope="module")
def analysis():
    if not TEST.exists():
        pytest.skip("SciERC is not among the data of this checkout")
    gold = list(read_documents(TEST))
    return analyse(gold, gold, schema=Schema.from_documents(gold))


def test_entities_out_of_triples(analysis):
    groups = analysis.in_triples
    assert groups.in_triple.n_gold + groups.out_of_triple.n_gold == 1685
    assert groups.out_of_triple.n_gold == 380


def test_gold_has_no_errors(analysis):
    assert analysis.to_dict()["relation_errors"]["n_errors"] == 0
    assert analysis.to_dict()["entity_errors"]["n_errors"] == 0
