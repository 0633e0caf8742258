import pytest

from cascade_srn.errors import ConfigError
from cascade_srn.lab.reproduction.measures import MEASURES
from cascade_srn.lab.reproduction.options import VARIANTS
from cascade_srn.lab.reproduction.results import describe_tables
from cascade_srn.lab.reproduction.tables import (
    COLUMNS,
    FEWER,
    MORE,
    NO_WORSE,
    TABLES,
    find_paper_figures,
    list_variants,
    select_tables,
)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_claims_use_columns_of_the_table(table):
    rows = {row.variant: row for row in table.rows}
    for claim in table.claims:
        assert claim.kind in (MORE, FEWER, NO_WORSE)
        assert claim.first != claim.second
        for variant in (claim.first, claim.second):
            assert claim.column in table.our_columns
            assert claim.column not in rows[variant].without, claim
    assert set(table.variants) <= set(VARIANTS)
    assert set(table.panels) <= set(table.our_columns)
    assert len(set(table.claims)) == len(table.claims)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_our_columns_are_measured(table):
    assert {column for column in table.our_columns if column != "speed"} <= set(MEASURES)
    assert all(column in COLUMNS for row in table.rows for column in row.paper)
    assert all(column in table.columns for row in table.rows for column in row.paper)


def test_main_claims():
    statements = {claim.statement for table in TABLES.values() for claim in table.claims if claim.paper}
    assert statements >= {
        "early beats late",
        "SRN beats BiLSTM",
        "RE helps NER",
        "entity markers help",
        "gold entities beat gold subjects as candidates",
    }


def test_select_tables():
    assert [table.name for table in select_tables(["errors", "main", "errors"])] == ["main", "errors"]
    assert select_tables(["all"]) == list(TABLES.values())
    with pytest.raises(ConfigError, match="'ablations'.*'ablation'"):
        select_tables(["main", "ablations"])


def test_variants_of_several_tables():
    needed = list_variants([TABLES["main"], TABLES["fusion"]])
    assert sorted(needed) == sorted(TABLES["main"].variants)
    assert set(list_variants(list(TABLES.values()))) == set(VARIANTS)


def test_published_figures():
    assert TABLES["fusion"].paper_figure("late", "speed") == 295.04
    assert TABLES["fusion"].paper_figure("swift", "ner") is None
    assert TABLES["ablation"].paper_figure("independent", "re") is None
    by_statement = {(claim.statement, claim.column): claim for claim in TABLES["entities"].claims}
    assert find_paper_figures(TABLES["entities"], by_statement["early beats PFN", "out_f1"]) == (51.6, 47.8)
    # The figures are in the ablation table.
    assert find_paper_figures(TABLES["entities"], by_statement["RE helps NER", "ner"]) == (69.2, 67.5)
    assert find_paper_figures(TABLES["entities"], by_statement["RE helps NER with swift fusion", "ner"]) is None


def test_description_of_tables():
    text = describe_tables()
    for table in TABLES.values():
        assert f"{table.name}: {table.title} ({table.label}" in text
        assert ", ".join(table.variants) in text
    for name, variant in VARIANTS.items():
        assert any(line.split() == [name, *variant.about.split()] for line in text.splitlines())
