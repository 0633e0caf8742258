"""Blocks and markup of texts. ``awkward.jsonl`` has examples of the sentences that follow from them."""

import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tools.fuzz import LAYOUT, fuzz_texts

from cascade_srn import Document
from cascade_srn.errors import ConfigError
from cascade_srn.text.layout import find_layout
from cascade_srn.text.presplit import segment_lines
from cascade_srn.text.segment import find_markup, make_segmenter, segment


def words(text):
    return [text[start:end] for sentence in segment(text) for start, end in sentence]


def blocks(text):
    return [(block.kind, text[block.start : block.end]) for block in find_layout(text, text.replace("\t", " ")).blocks]


def sentences(text, **options):
    return [text[words[0][0] : words[-1][1]] for words in segment(text, **options)]


PAPER = """# Parsing

We parse text [1]. It is
- fast
- small

| Model | F1 |
|---|---|
| CRF | 80 |

```
parse(text)
```

## References

[1] Li, S. A. Parsing. 2010.

# Appendix

More text.
"""


def test_kinds_of_blocks():
    assert [kind for kind, _ in blocks(PAPER)] == [
        *("heading", "paragraph", "item", "item", "table", "rule", "table", "rule", "code", "rule"),
        *("references", "references", "heading", "paragraph"),
    ]
    assert blocks("> a b\n> c\n\n    x = 1\n    f(x)\n") == [("quote", "a b\n> c"), ("code", "x = 1"), ("code", "f(x)")]


@pytest.mark.parametrize(
    ("skip", "missing"),
    [
        ((), ""),
        (("code",), "parse ( text )"),
        (("tables",), "Model|F1|CRF|80"),
        (["references"], "References|Li, S. A. Parsing.|2010."),
    ],
)
def test_skipped_parts(skip, missing):
    every = sentences(PAPER)
    left_out = {part.replace(" ( text )", "(text)") for part in missing.split("|")}
    assert sentences(PAPER, skip=skip) == [sentence for sentence in every if sentence not in left_out]
    document = Document.from_text(PAPER, segmenter=make_segmenter(skip=skip))
    assert document.coverage.complete == (not skip)


def test_skipped_parts_of_html_and_latex():
    html = "<h1>A</h1><table><tr><td>b</td></tr></table><pre>c</pre><h2>References</h2><p>d</p><h2>E</h2>f"
    assert sentences(html, skip=("tables", "code", "references")) == ["A", "E", "f"]
    latex = r"""\section{A}
\begin{tabular}{l} b \\ c \end{tabular}
\begin{verbatim}
d
\end{verbatim}
E
\begin{thebibliography}{9}
\bibitem{x} F.
\end{thebibliography}"""
    assert sentences(latex, skip=("tables", "code", "references")) == ["A", "E"]


def test_a_file_of_latex():
    latex = r"""\documentclass{article}
\begin{document}
We present \ours{}, a {\bf fast} parser: $\alpha$ is 3\,\% here
\begin{equation} s = \exp(x) \label{eq:s} \end{equation}
as _always in math_."""
    expected = "We present ours , a bf fast parser : $ alpha $ is 3 % here s = exp ( x ) as always in math ."
    assert " ".join(words(latex)) == expected
    assert ["s", "=", "exp", "(", "x", ")"] in [[latex[a:b] for a, b in one] for one in segment(latex)]
    # A text that only has some commands, such as an abstract, keeps the others.
    assert words(r"An \emph{ell} \ell_1 {x}") == ["An", "ell", "\\", "ell_1", "{", "x", "}"]


def test_commands_of_latex_that_are_not_known():
    source = "\\section{Tags}\n\\indexdef{tag!of words}We \\define{tag} words\\index{words} with \\ours{} at $\\alpha$."
    found = ["Tags", "We", "tag", "words", "with", "ours", "at", "$", "alpha", "$", "."]
    assert words(source) == found


def test_an_article_in_jats():
    source = """<!DOCTYPE article PUBLIC "x" "y.dtd">
<article article-type="a"><front><journal-id id="b">J</journal-id><article-title>Tags &#x02013; new</article-title>
</front><body><sec><title>Use</title><p>A <italic>CRF</italic><xref rid="b1">1</xref> tags text.</p></sec></body><back>
<ref-list><ref>Old</ref></ref-list>
</back></article>"""
    expected = ["J", "Tags new", "Use", "A CRF 1 tags text ."]
    for skip, rest in (((), ["Old"]), (("references",), [])):
        found = segment(source, skip=skip)
        assert [" ".join(source[a:b] for a, b in sentence) for sentence in found] == expected + rest


def test_a_page_of_html():
    page = "<!DOCTYPE html><html><body><p data-x>A &amp; B &mdash; <svg><path d='M0'/></svg>x &lt; 3</p></body></html>"
    assert words(page) == ["A", "&", "B", "x", "3"]
    assert words("a <unk> &lt; b") == ["a", "<", "unk", ">", "&", "lt", ";", "b"]


@pytest.mark.parametrize("text", ["snake_case_name", "__init__", "_x_1", "a _b", "x_{ab} and y_{cd}", "_ab\ncd_"])
def test_underscores_that_are_no_emphasis(text):
    assert find_markup(text) == ()


def test_latex_comments_and_line_breaks():
    latex = "Parsing \\\\with \\emph{CRFs}\n% not a heading\nis \\small easy [see](docs/a.md)."
    assert sentences(latex) == [latex]
    assert [latex[start:end] for start, end in find_markup(latex)] == [
        *("\\\\", "\\emph{", "}", "% not a heading\n", "\\small", "[", "](docs/a.md)")
    ]
    assert find_markup("50% of the\n% signs") == ()
    shown = "\\emph{CRFs} gain 5 % or 5\\% or 5% % HMMs\nor more."
    assert words(shown) == ["CRFs", "gain", "5", "%", "or", "5", "%", "or", "5", "%", "or", "more", "."]


def test_scripts_and_styles_are_no_text():
    html = "<style>p{color: red}</style><p>A CRF.</p><script>var model = 'HMM';</script><p>It works.</p>"
    assert sentences(html) == ["A CRF.", "It works."]
    assert words("The script <script> is open") == ["The", "script", "is", "open"]


def test_skipping_is_checked():
    with pytest.raises(ConfigError) as caught:
        make_segmenter(skip=["table"])
    assert caught.value.option == "skip"
    with pytest.raises(ConfigError):
        make_segmenter(skip="code")
    with pytest.raises(ConfigError):
        segment("a", skip=["Code"])
    with pytest.raises(ConfigError):
        make_segmenter(segment_lines, ["code"])
    assert make_segmenter(segment_lines) is segment_lines
    both = make_segmenter(make_segmenter(skip=["code"]), ["tables"])
    assert both(PAPER) == segment(PAPER, skip=("code", "tables"))


@pytest.mark.parametrize("text", [">\n(b) second", "a.\n>\n(b) second", "It ends.\n> >\nHeading\nText follows it."])
def test_a_line_of_quotation_marks_is_like_a_blank_line(text):
    assert sentences(text) == sentences(text.replace(">", " "))


def test_markup_counts_as_such():
    covered = Document.from_text("- a <b>CRF</b>\n- an HMM").coverage
    assert (covered.n_characters, covered.n_covered, covered.n_markup, covered.share) == (18, 9, 9, 1.0)
    assert covered.complete
    covered = Document.from_text("- a CRF\n- x", segmenter=lambda text: [[(4, 7)]]).coverage
    assert (covered.missed, covered.n_markup, covered.n_covered) == (((2, 3), (10, 11)), 2, 3)
    assert covered.share == 3 / 5


@pytest.mark.parametrize(
    "text",
    [
        "1. Introduction",
        "[3] proposes a parser.",
        "as shown in\n[1] and later in\n[2] by others",
        "The __init__ method of http://a.b/c\\_d",
        "`so' he said, and `so'",
        "It is\n> 5 and\n< 3",
        "P(a|b)\nand P(b|a)",
        "J. Smith\n\nK. Lee",
        "10 Downing Street\n\nLondon",
    ],
)
def test_text_that_looks_like_markup(text):
    assert find_markup(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "A new model of Foo! Bar is here, and the Foo! service is gone.",
        "Smith, S. A., and Lee, I. A. B. wrote it.",
        "We take I. A. Smith and S. A. Lee.",
    ],
)
def test_one_sentence(text):
    assert len(segment(text)) == 1


def check(text):
    found = segment(text)
    assert all(found)
    assert Document.from_text(text).coverage.complete
    at = 0
    for start, end in (word for sentence in found for word in sentence):
        assert at <= start < end <= len(text)
        at = end
    at = 0
    for block in find_layout(text, text.replace("\t", " ")).blocks:
        assert at <= block.start < block.end <= len(text)
        at = block.end


@given(st.lists(st.sampled_from((*LAYOUT, "a", "The ", ". ", "word"))).map("".join))
def test_any_mixture_of_constructions(text):
    check(text)


def test_fuzzed_texts():
    for fuzz in fuzz_texts(150, seed=17):
        check(fuzz.text)


@given(st.lists(st.sampled_from((*LAYOUT, "Word ", "end. "))).map("".join))
@example("- an item\n[1] Li, S. A., and Lee, K. Parsing.\n")
def test_sentences_do_not_leave_blocks(text):
    ends = [block.end for block in find_layout(text, text.replace("\t", " ")).blocks]
    for words in segment(text):
        first = next(number for number, end in enumerate(ends) if end > words[0][0])
        assert words[-1][1] <= ends[first]


def count_steps(text):
    """Count the lines of Python that run."""
    steps = 0

    def trace(frame, event, argument):
        nonlocal steps
        steps += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        segment(text)
    finally:
        sys.settrace(before)
    return steps


@pytest.mark.parametrize(
    "unit", [*LAYOUT[::5], "[", "|", "#", "(", "a\n", "```\n````\n", "<table>", "\\begin{tabular}"]
)
def test_the_number_of_steps_is_linear(unit):
    assert count_steps(unit * 600) <= 2.4 * count_steps(unit * 300)
