import pytest

from cascade_srn.errors import ConfigError
from cascade_srn.reproduction.claims import FEWER, MORE, NO_WORSE
from cascade_srn.reproduction.markdown import tables_text
from cascade_srn.reproduction.measures import MEASURES
from cascade_srn.reproduction.options import VARIANTS
from cascade_srn.reproduction.tables import COLUMNS, TABLES, chosen_tables, needed_variants, paper_figures


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_claims_are_about_figures_that_the_table_has(table):
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
def test_every_column_of_ours_can_be_measured(table):
    assert {column for column in table.our_columns if column != "speed"} <= set(MEASURES)
    assert all(column in COLUMNS for row in table.rows for column in row.paper)
    assert all(column in table.columns for row in table.rows for column in row.paper)


def test_the_claims_that_matter_are_there():
    said = {claim.statement for table in TABLES.values() for claim in table.claims if claim.paper}
    assert said >= {
        "early beats late",
        "SRN beats BiLSTM",
        "RE helps NER",
        "entity markers help",
        "gold entities beat gold subjects as candidates",
    }


def test_tables_are_chosen_by_name():
    assert [table.name for table in chosen_tables(["errors", "main", "errors"])] == ["main", "errors"]
    assert chosen_tables(["all"]) == list(TABLES.values())
    with pytest.raises(ConfigError, match="there is no table 'ablations'. Did you mean 'ablation'?"):
        chosen_tables(["main", "ablations"])


def test_a_variant_that_two_tables_need_is_needed_once():
    needed = needed_variants([TABLES["main"], TABLES["fusion"]])
    assert sorted(needed) == sorted(TABLES["main"].variants)
    assert set(needed_variants(list(TABLES.values()))) == set(VARIANTS)


def test_figures_of_the_paper_by_variant():
    assert TABLES["fusion"].paper_figure("late", "speed") == 295.04
    assert TABLES["fusion"].paper_figure("swift", "ner") is None
    assert TABLES["ablation"].paper_figure("independent", "re") is None
    by_statement = {(claim.statement, claim.column): claim for claim in TABLES["entities"].claims}
    assert paper_figures(TABLES["entities"], by_statement["early beats PFN", "out_f1"]) == (51.6, 47.8)
    # The table has no figure for it, the ablation has.
    assert paper_figures(TABLES["entities"], by_statement["RE helps NER", "ner"]) == (69.2, 67.5)
    assert paper_figures(TABLES["entities"], by_statement["RE helps NER with swift fusion", "ner"]) is None


def test_the_list_names_everything():
    told = tables_text()
    for table in TABLES.values():
        assert f"{table.name}: {table.title} ({table.label} in the paper)" in told
        assert f"trains: {', '.join(table.variants)}" in told
    for name, variant in VARIANTS.items():
        assert any(line.split() == [name, *variant.about.split()] for line in told.splitlines())
