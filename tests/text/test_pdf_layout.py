import pytest

from cascade_srn.text.pdf_layout import Word, join_pages
from cascade_srn.text.pdf_worker import BOLD
from cascade_srn.text.segment import segment

BODY = "a line of the running text of this page"
WIDTH = 0.5


def line(text, x=50.0, y=700.0, size=10.0, style=0):
    """Return the words of a line in a font whose characters are all half as wide as the size."""
    words, at = [], x
    for part in text.split(" "):
        words.append(Word(part, at, at + WIDTH * size * len(part), y, size, style))
        at += WIDTH * size * (len(part) + 1)
    return words


def lines(*texts, x=50.0, top=700.0, leading=12.0, size=10.0, style=0):
    return [word for at, text in enumerate(texts) for word in line(text, x, top - leading * at, size, style)]


def page(*edges, number=0, body=()):
    texts = body or [f"{BODY} {chr(97 + number)}{chr(97 + at)}" for at in range(6)]
    return [*lines(*texts), *(word for text, x, y in edges for word in line(text, x, y, 8.0))]


def text_of(*pages, keep=()):
    return join_pages(pages, keep)[0]


def body_of(n_pages):
    return text_of(*(page(number=number) for number in range(n_pages)))


def test_words_are_put_in_order_and_raised_ones_stay_in_their_line():
    words = [*line("wins here", 100), Word("2", 80, 84, 703.5, 6), *line("A CRF")]
    assert text_of([*words, *line("below", y=688)]) == "A CRF 2 wins here\nbelow"


def test_lines_beside_a_large_heading_or_sign_stay_apart():
    left = [f"{BODY} l{chr(97 + at)}" for at in range(12)]
    right = [f"{BODY} r{chr(97 + at)}" for at in range(12)]
    words = [*lines(*left[:6]), *lines(*left[6:], top=594.0), *lines(*right, x=300.0, leading=11.0)]
    heading = line("A Large Heading", y=615.0, size=16.0)
    assert text_of([*words, *heading]).split("\n")[-12:] == right
    sign = Word("{", 40.0, 48.0, 661.0, 20.0)
    assert [one for one in text_of([*words, sign]).split("\n") if one not in left + right + [""]] in (
        ["{ " + one] for one in left
    )


@pytest.mark.parametrize("gap", [11.0, 25.0])
def test_a_stretched_line_is_no_row_of_cells_or_columns(gap):
    def stretched(text, x, y):
        words = line(text, x, y)
        room = gap - 5.0
        return [
            word._replace(left=word.left + at * room, right=word.right + at * room) for at, word in enumerate(words)
        ]

    texts = ["loose words in lines", "very loose words of", "three such rows in", "the middle of a column"]
    width = max(word.right for text in texts for word in stretched(text, 0.0, 0.0))
    both = []
    for x in (50.0, 50.0 + width + 40.0):
        for at in range(10):
            both += stretched(texts[at % 3], x, 700.0 - 12 * at)
    assert "\t" not in text_of(both)
    assert text_of(both).split() == " ".join([texts[at % 3] for at in range(10)] * 2).split()


def test_places_of_words():
    text, placed, _ = join_pages([lines("one two"), lines("three")])
    assert [(text[word.start : word.end], word.page) for word in placed] == [("one", 0), ("two", 0), ("three", 1)]
    assert placed[1].box == pytest.approx((70.0, 697.8, 85.0, 707.5))


@pytest.mark.parametrize("n_pages", [2, 3, 7])
def test_repeated_edges_are_removed(n_pages):
    pages = [page(("Running head", 50, 780), (f"Page {at + 8} of 12", 200, 30), number=at) for at in range(n_pages)]
    assert text_of(*pages) == body_of(n_pages)
    assert body_of(n_pages).count("\n") == 6 * n_pages - 1
    assert join_pages(pages)[2] == {"headers": 2 * n_pages}
    assert text_of(*pages, keep=["headers"]).count("Running head") == n_pages


def test_heads_of_left_and_right_pages_are_removed():
    pages = [page(("An author", 50, 780) if at % 2 else ("A title", 400, 780), number=at) for at in range(6)]
    assert text_of(*pages) == body_of(6)


def test_edges_that_do_not_repeat_are_kept():
    assert "Running head" in text_of(page(("Running head", 50, 780)))
    # On two of four pages, and at other heights.
    head = ("Running head", 50, 780)
    some = [page(head), page(number=1), page(number=2), page(head, number=3)]
    assert text_of(*some).count("Running head") == 2
    moving = [page(("Caption", 50, 760 + 10 * at)) for at in range(4)]
    assert text_of(*moving).count("Caption") == 4


def test_repeated_text_inside_pages_is_kept():
    pages = [page(body=(f"first {at * 'x'}", "the same", "the same", f"last {at * 'x'}")) for at in range(4)]
    assert text_of(*pages).count("the same") == 8


REFERENCES = [
    *lines(BODY, "the end."),
    *line("References", y=640, size=12, style=BOLD),
    *lines("[1] A. Author. A title. 2020.", "[2] B. Author. Another title.", top=620),
]


def test_references_are_left_out():
    appendix = [*line("A Proofs", y=580, size=12, style=BOLD), *lines("This is the appendix.", top=560)]
    assert text_of(REFERENCES) == f"{BODY}\nthe end."
    assert text_of([*REFERENCES, *appendix]) == f"{BODY}\nthe end.\n\nA Proofs\n\nThis is the appendix."
    assert join_pages([REFERENCES])[2] == {"references": 3}
    assert "[2] B. Author" in text_of(REFERENCES, keep=["references"])


def test_paragraphs_end_at_gaps_indents_and_other_sizes():
    gap = [*lines("One", "two", "three", "four."), *lines("Five", "six", top=645.0)]
    assert text_of(gap) == "One\ntwo\nthree\nfour.\n\nFive\nsix"
    indent = [*lines("One", "two", "three."), *lines("Four", x=60.0, top=664.0), *lines("five", "six", top=652.0)]
    assert text_of(indent) == "One\ntwo\nthree.\n\nFour\nfive\nsix"
    heading = [*lines("Heading", size=14.0), *lines("One", "two", top=686.0)]
    assert text_of(heading) == "Heading\n\nOne\ntwo"
    bold = [*lines("Heading", style=BOLD), *lines("One", "two", top=688.0)]
    assert text_of(bold) == "Heading\n\nOne\ntwo"


@pytest.mark.parametrize("leading", [11.0, 14.0, 20.0, 24.0])
def test_wide_leading_does_not_end_a_paragraph(leading):
    wide = lines("We show that", "Graphs are", "small and", "Trees are not.", leading=leading)
    narrow = lines(BODY, BODY, BODY, top=700 - 5 * leading)
    assert text_of([*wide, *narrow]).startswith("We show that\nGraphs are\nsmall and\nTrees are not.")


def test_a_tall_formula_in_a_line_does_not_end_a_sentence():
    words = [*lines("One line", "with a sum", "of"), *lines("parts and", "more.", top=658.0)]
    assert text_of(words) == "One line\nwith a sum\nof\nparts and\nmore."


def test_lines_of_a_centred_title_are_one_paragraph():
    title = [*line("A Title That Takes Two", 100, size=14), *line("Lines of Text", 131.5, 684, size=14)]
    assert text_of([*title, *lines(BODY, BODY, top=650)]).startswith("A Title That Takes Two\nLines of Text\n\n")


def test_a_paragraph_continues_in_the_next_column_and_page():
    rows = [f"{BODY} {at}" for at in range(9)]
    first = [*lines(*rows), *lines(*rows, x=300.0)]
    assert text_of(first, lines("six", "seven")) == "\n".join([*rows, *rows, "six", "seven"])


def test_a_paragraph_continues_after_a_figure_and_a_footnote():
    first = [*lines(BODY, "and the sentence"), *line("1 A footnote.", y=600, size=7)]
    second = [*line("Figure 1: Some curves."), *lines("goes on here", "and ends.", top=660)]
    assert text_of(first, second) == (
        f"{BODY}\nand the sentence\ngoes on here\nand ends.\n\n1 A footnote.\n\nFigure 1: Some curves."
    )


def test_a_short_last_line_ends_the_paragraph_of_a_page():
    text = text_of(lines(f"1 {BODY}", f"a {BODY}", "end."), lines(f"B {BODY}", f"c {BODY}"))
    assert text.endswith(f"end.\n\nB {BODY}\nc {BODY}")


def rows(n_rows, left, right):
    return [
        word
        for at in range(n_rows)
        for x, t in ((50, left), (300, right))
        for word in line(f"{t} {at}", x, 700 - 12 * at)
    ]


@pytest.mark.parametrize("shift", [0.0, 3.0, 6.0])
def test_columns_that_are_drawn_row_by_row(shift):
    words = rows(9, "text in the left column", "text in the right column")
    words = [word._replace(y=word.y - shift) if word.left >= 300 else word for word in words]
    title = line("A title that is as wide as both of the columns of the page", 50, 740, 12)
    found = text_of([*title, *words]).split("\n")
    assert found[0].startswith("A title")
    assert found[2:] == [f"text in the {side} column {at}" for side in ("left", "right") for at in range(9)]


def test_a_figure_across_two_columns_is_between_them():
    upper, lower = (
        rows(9, "text of the upper left", "text of the upper right"),
        rows(9, "text below left", "text below right"),
    )
    middle = line("Figure 2: This caption is about as wide as both columns of the page.", 50, 570)
    words = [*upper, *middle, *(word._replace(y=word.y - 150) for word in lower)]
    found = text_of(words)
    order = [
        found.index(part) for part in ("upper left 8", "upper right 8", "Figure 2", "below left 0", "below right 0")
    ]
    assert order == sorted(order)


@pytest.mark.parametrize(("n_rows", "left"), [(5, "text in the left column"), (9, "CRF")])
def test_rows_of_a_table_are_kept(n_rows, left):
    text = text_of(rows(n_rows, left, "text in the right column"))
    assert text.startswith(f"{left} 0\ttext in the right column 0\n{left} 1\t")


def test_cells_and_equations_are_no_sentences_of_prose():
    words = [
        *lines(BODY, "shows that"),
        *line("y = a x + b ( 3 )", 120, 655),
        *lines("holds for all.", top=636),
        *(
            word
            for at, row in enumerate(("F1 81.2", "R 79.9", "P 70.1"))
            for x, cell in zip((50, 120), row.split(), strict=True)
            for word in line(cell, x, 600 - 12 * at)
        ),
    ]
    text = text_of(words)
    assert text == f"{BODY}\nshows that\n\ny = a x + b ( 3 )\n\nholds for all.\n\nF1\t81.2\nR\t79.9\nP\t70.1"
    sentences = [" ".join(text[start:end] for start, end in sentence) for sentence in segment(text)]
    assert sentences[2:5] == ["holds for all .", "F1", "81.2"]


def test_many_words():
    pages = [[word for at in range(1_000) for word in line(f"line {at}", float(at), y, 1e9)] for y in (0.0, 100.0)]
    assert len(text_of(*pages).split()) == 4_000
    many = [word for at in range(3_000) for word in line("a b c", at % 50 * 12, 800 - at // 50, 5)]
    assert len(text_of(many).split()) == 9_000
