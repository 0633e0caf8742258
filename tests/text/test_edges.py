import pytest

from cascade_srn.text.edges import any_edge, trim


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("( CRF", "CRF"),
        ("CRF )", "CRF"),
        ("CRF (", "CRF"),
        (") CRF", "CRF"),
        ("model ( CRF )", "model ( CRF )"),
        ("( CRF ) model", "( CRF ) model"),
        ('" CRF "', "CRF"),
        ('" CRF', "CRF"),
        ("` CRF", "CRF"),
        ("“ CRF ”", "CRF"),
        ('" deep " learning', '" deep " learning'),
        ("`` black box '' model", "`` black box '' model"),
        ('( " CRF', "CRF"),
        ("🔥 CRF ✅", "CRF"),
        ("\u200b CRF \x07", "CRF"),
        ("CRF ®", "CRF ®"),
        ("C ++", "C ++"),
        ('" "', ""),
        ("(", ""),
    ],
)
def test_edges(words, kept):
    given = words.split(" ")
    start, end = trim(["a", *given, "b"], 1, len(given) + 1)
    assert " ".join(["a", *given, "b"][start:end]) == kept
    if words == kept:
        return
    assert any_edge([given[0], given[-1]])
