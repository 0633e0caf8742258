import random

import pytest

from cascade_srn.evaluation.from_text import rebuild_text
from cascade_srn.evaluation.noise import DOCUMENT_KINDS, KINDS, add_noise, noisy_documents, noisy_sentence, parse_kinds
from cascade_srn.text.pdf import has_pdfium
from cascade_srn.types import Document, Sentence, Span, Triple

WORDS = "A dependency parser -LRB- ours -RRB- improves syntactic parsing by 3.5 % ."
SENTENCE = Sentence.from_words(
    WORDS.split(),
    [Span(1, 3, "Method"), Span(7, 9, "Task")],
    [Triple(Span(1, 3, "Method"), "Used-for", Span(7, 9, "Task"), 0.5)],
)
DOCUMENT = rebuild_text(Document.from_sentences([SENTENCE] * 3, id="d"))


def letters(text):
    return "".join(char for char in text.lower() if char.isalpha())


@pytest.mark.parametrize("kind", KINDS)
def test_annotations_stay_on_their_words(kind):
    noisy = add_noise(DOCUMENT, kind, random.Random(3))
    assert noisy.id == "d"
    assert noisy.text != DOCUMENT.text
    assert [e.label for e in noisy.entities] == ["Method", "Task"] * 3
    assert [(r.head.label, r.tail.label, r.score) for r in noisy.relations] == [("Method", "Task", 0.5)] * 3
    if kind != "ocr":
        for before, after in zip(DOCUMENT.entities, noisy.entities, strict=True):
            assert letters(after.text.replace("\\emph", "")) == letters(before.text)


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_determines_the_noise(kind):
    first, second = (noisy_documents([DOCUMENT] * 2, kind, 5) for _ in range(2))
    assert first == second
    if kind in ("ocr", "latex", "markdown"):
        assert first[0].text != first[1].text
        assert noisy_documents([DOCUMENT], kind, 6)[0].text != first[0].text


def test_each_kind():
    def noisy(kind):
        return add_noise(DOCUMENT, kind, random.Random(1)).text

    assert noisy("no-punctuation").startswith("A dependency parser ours improves syntactic parsing by 3.5% A ")
    assert noisy("capitals").startswith("A DEPENDENCY PARSER (OURS) IMPROVES")
    assert noisy("lower-case").startswith("a dependency parser (ours) improves")
    lines = noisy("column").split("\n")
    assert max(map(len, lines)) <= 38
    assert any(line.endswith("-") for line in lines)
    assert 1 < sum(a != b for a, b in zip(noisy("ocr").split(), DOCUMENT.text.split(), strict=True)) < 12
    assert "\\emph{" in noisy("latex")
    assert "\\%" in noisy("latex")
    assert "**" in noisy("markdown")
    assert "et al." in "".join(add_noise(DOCUMENT, "markdown", random.Random(n)).text for n in range(5))


@pytest.mark.skipif(not has_pdfium(), reason="the extra pdf is not installed")
def test_a_pdf_has_columns_and_pages():
    short = Document.from_text("No entity \\ here (α).", id="short")
    documents = [DOCUMENT, short, *[DOCUMENT] * 90]
    noisy = noisy_documents(documents, "pdf", 0)
    assert [one.id for one in noisy] == [one.id for one in documents]
    for before, after in zip(documents, noisy, strict=True):
        assert letters(after.text) == letters(before.text.replace("α", ""))
        assert [letters(e.text) for e in after.entities] == [letters(e.text) for e in before.entities]
        assert len(after.relations) == len(before.relations)
        assert "\t" not in after.text  # justified lines are no tables
    assert any("\n" in entity.text for one in noisy for entity in one.entities)


def test_citations_are_not_inside_entities():
    for seed in range(30):
        for kind in ("latex", "markdown"):
            noisy = add_noise(DOCUMENT, kind, random.Random(seed))
            assert not any("cite" in e.text or "et al" in e.text or "[" in e.text for e in noisy.entities)


def test_an_entity_without_words_is_gone():
    sentence = Sentence.from_words(["(", "x"], [Span(0, 1, "A"), Span(0, 2, "A"), Span(1, 2, "A")])
    (left,) = add_noise(Document.from_sentences([sentence]), "no-punctuation", random.Random(0)).sentences
    assert left.words == ("x",)
    assert left.entities == (Span(0, 1, "A"),)


@pytest.mark.parametrize("kind", KINDS)
def test_a_noisy_sentence_has_the_words_of_the_segmenter(kind):
    for seed in range(5):
        noisy = noisy_sentence(SENTENCE, kind, random.Random(seed))
        assert [e.label for e in noisy.entities] == ["Method", "Task"]
        assert len(noisy.triples) == 1
        assert not any("emph" in word or "**" in word or "cite" in word for word in noisy.words)


def test_kinds_by_name():
    assert parse_kinds("all") == (DOCUMENT_KINDS if has_pdfium() else KINDS)
    assert parse_kinds("ocr, capitals,ocr") == ("ocr", "capitals")
    assert parse_kinds("") == ()
