import pytest

from cascade_srn.text.pdf_layout import join_pages

BODY = "a line of the running text of this page"


def lines(*texts, x=50.0, top=700.0, leading=12.0, size=10.0):
    return [(f"{text}\n", x, top - leading * at, size) for at, text in enumerate(texts)]


def page(*edges, number=0, body=()):
    texts = body or [f"{BODY} {chr(97 + number)}{chr(97 + at)}" for at in range(6)]
    return [*lines(*texts), *((f"{text}\n", x, y, 8.0) for text, x, y in edges)]


def body_of(n_pages):
    return join_pages([page(number=number) for number in range(n_pages)])


def test_pieces_of_a_line_are_joined():
    pieces = [
        ("A ", 50, 700, 10),
        ("CRF", 60, 700, 10),
        ("2", 75, 704, 6),
        (" wins\n", 80, 700, 10),
        ("it", 50, 688, 10),
    ]
    assert join_pages([pieces]) == "A CRF2 wins\nit"


def test_characters_that_no_text_may_have():
    assert join_pages([[("a\x00b\ud800c  d\te\x1f\n", 50, 700, 10)]]) == "ab\ufffdc d e"


@pytest.mark.parametrize("n_pages", [2, 3, 7])
def test_repeated_edges_are_removed(n_pages):
    pages = [page(("Running head", 50, 780), (f"Page {at + 8} of 12", 200, 30), number=at) for at in range(n_pages)]
    assert join_pages(pages) == body_of(n_pages)
    assert body_of(n_pages).count("\n") == 6 * n_pages - 1


def test_heads_of_left_and_right_pages_are_removed():
    pages = [page(("An author", 50, 780) if at % 2 else ("A title", 400, 780), number=at) for at in range(6)]
    assert join_pages(pages) == body_of(6)


def test_edges_that_do_not_repeat_are_kept():
    assert "Running head" in join_pages([page(("Running head", 50, 780))])
    # On two of four pages, and at other heights.
    head = ("Running head", 50, 780)
    some = [page(head), page(number=1), page(number=2), page(head, number=3)]
    assert join_pages(some).count("Running head") == 2
    moving = [page(("Caption", 50, 760 + 10 * at)) for at in range(4)]
    assert join_pages(moving).count("Caption") == 4


def test_repeated_text_inside_pages_is_kept():
    pages = [page(body=(f"first {at * 'x'}", "the same", "the same", f"last {at * 'x'}")) for at in range(4)]
    assert join_pages(pages).count("the same") == 8


def test_paragraphs_end_at_gaps_indents_and_other_sizes():
    gap = [*lines("one", "two", "three", "four"), *lines("five", "six", top=645.0)]
    assert join_pages([gap]) == "one\ntwo\nthree\nfour\n\nfive\nsix"
    indent = [*lines("one", "two", "three"), *lines("four", x=60.0, top=664.0), *lines("five", "six", top=652.0)]
    assert join_pages([indent]) == "one\ntwo\nthree\n\nfour\nfive\nsix"
    heading = [*lines("Heading", size=14.0), *lines("one", "two", top=686.0)]
    assert join_pages([heading]) == "Heading\n\none\ntwo"


def test_a_paragraph_continues_in_the_next_column_and_page():
    first = [*lines("one", "two", "three"), *lines("four", "five", x=300.0)]
    assert join_pages([first, lines("six", "seven")]) == "one\ntwo\nthree\nfour\nfive\nsix\nseven"


def test_a_short_last_line_ends_the_paragraph_of_a_page():
    text = join_pages([lines(f"1 {BODY}", f"a {BODY}", "end."), lines(f"b {BODY}", f"c {BODY}")])
    assert text.endswith(f"end.\n\nb {BODY}\nc {BODY}")


def rows(n_rows, left, right):
    pieces = []
    for at in range(n_rows):
        y = 700.0 - 12 * at
        pieces += [(f"{left} {at}", 50.0, y, 10.0), (f" {right} {at}\n", 300.0, y, 10.0)]
    return pieces


def test_columns_that_are_drawn_row_by_row():
    text = join_pages([rows(9, "text in the left column", "text in the right column")]).split("\n")
    assert text == [f"text in the {side} column {at}" for side in ("left", "right") for at in range(9)]


@pytest.mark.parametrize(("n_rows", "left"), [(5, "text in the left column"), (9, "CRF")])
def test_rows_of_a_table_are_kept(n_rows, left):
    text = join_pages([rows(n_rows, left, "text in the right column")])
    assert text.startswith(f"{left} 0 text in the right column 0\n{left} 1 ")


def test_many_lines():
    pages = [[(f"line {at}\n", float(at), y, 1e9) for at in range(1_000)] for y in (0.0, 100.0)]
    assert len(join_pages(pages).split()) == 4_000
