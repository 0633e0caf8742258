import pytest
from tests.apps.extract.models import extractor

from cascade_srn import Document
from cascade_srn.apps.extract.run import ExtractionTotals, extract_all, format_progress, format_totals
from cascade_srn.errors import DataError
from cascade_srn.inputs.sources import Text, Unreadable


class Kept:
    """A writer to memory, which rejects documents with one id."""

    def __init__(self, rejected=None, broken=None):
        self.documents, self.ended = [], None
        self.rejected, self.broken = rejected, broken

    def write(self, document, fields=None):
        if document.id == self.rejected:
            raise DataError("it does not fit", "Shorten it", option="size")
        if document.id == self.broken:
            raise KeyboardInterrupt
        self.documents.append(document)

    def finish(self):
        self.ended = "finished"

    def abandon(self):
        self.ended = "abandoned"
        return "some.partial.file" if self.documents else None


def run(items, writer=None, **chosen):
    writer, sentences = writer or Kept(), []
    totals = extract_all(extractor(), items, writer, tell=sentences.append, **chosen)
    return totals, writer, sentences


TEXTS = [Text(str(i), f"Ada Berg leads Norlux number {i}.", f"file, line {i}", 10 * i) for i in range(6)]


@pytest.mark.parametrize("batch_words", [1, 10, 4096])
def test_documents_come_in_order_and_are_counted(batch_words):
    totals, writer, sentences = run(TEXTS, batch_words=batch_words)
    assert [document.id for document in writer.documents] == [str(i) for i in range(6)]
    assert totals.documents == 6
    assert totals.words == 6 * 7
    assert totals.entities == sum(len(document.entities) for document in writer.documents) > 0
    assert totals.relations == sum(len(document.relations) for document in writer.documents) > 0
    assert (totals.bad, totals.position, sentences, writer.ended) == (0, 50, [], "finished")


def test_documents_equal_those_of_extract():
    _, writer, _ = run([TEXTS[0], Text("w", Document.from_words([["Ada", "Berg,"]], id="w"), "")], thresholds=0.0025)
    assert writer.documents[0].entities == extractor().extract(TEXTS[0].text, thresholds=0.0025).entities
    assert writer.documents[1].sentences[0].words == ("Ada", "Berg,")


@pytest.mark.parametrize("batch_words", [1, 4096])
def test_bad_texts_are_reported_in_order_with_their_place(batch_words):
    items = [
        TEXTS[0],
        Unreadable(DataError("first reason")),
        Text("h", "a \ud800", "place of h", 7),
        TEXTS[1],
        TEXTS[2],
    ]
    totals, writer, sentences = run(items, Kept(rejected="1"), batch_words=batch_words)
    assert [document.id for document in writer.documents] == ["0", "2"]
    assert (totals.documents, totals.bad) == (2, 3)
    assert sentences[0] == "first reason"
    assert sentences[1].startswith("place of h: ")
    assert sentences[2] == "file, line 1: it does not fit. Shorten it (--size)."
    assert writer.ended == "finished"


@pytest.mark.parametrize("batch_words", [1, 4096])
def test_strict_stops_at_the_first_bad_text_and_keeps_earlier_documents(batch_words):
    writer = Kept()
    with pytest.raises(DataError, match="the reason"):
        run([*TEXTS[:3], Unreadable(DataError("the reason")), *TEXTS[3:]], writer, strict=True, batch_words=batch_words)
    assert [document.id for document in writer.documents] == ["0", "1", "2"]
    assert writer.ended == "abandoned"


def test_an_interruption_reports_the_partial_output():
    sentences = []
    writer = Kept(broken="4")
    with pytest.raises(KeyboardInterrupt):
        extract_all(extractor(), TEXTS, writer, tell=sentences.append)
    assert writer.ended == "abandoned"
    (sentence,) = sentences
    assert "some.partial.file: 4 documents, " in sentence


@pytest.mark.parametrize(("items", "has_hint"), [([], True), ([Unreadable(DataError("x"))], False)])
def test_no_usable_text_is_an_error(items, has_hint):
    writer = Kept()
    with pytest.raises(DataError) as error:
        run(items, writer)
    assert bool(error.value.hint) == has_hint
    assert writer.ended == "abandoned"


def test_an_error_while_keeping_does_not_hide_the_cause():
    class Unkept(Kept):
        def abandon(self):
            raise DataError("the disk is full")

    sentences = []
    with pytest.raises(KeyboardInterrupt):
        extract_all(extractor(), TEXTS, Unkept(broken="2"), tell=sentences.append)
    (sentence,) = sentences
    assert "the disk is full" in sentence


class TestASegmenterThatFails:
    @pytest.fixture(autouse=True)
    def segmenter(self, monkeypatch):
        def segmenter(text):
            if "number 2" in text:
                raise KeyError("two")
            return [[(0, 3)]]

        monkeypatch.setattr(extractor(), "segmenter", segmenter)

    @pytest.mark.parametrize("batch_words", [1, 4096])
    def test_other_texts_are_extracted(self, batch_words):
        totals, writer, sentences = run(TEXTS, batch_words=batch_words)
        assert [document.id for document in writer.documents] == ["0", "1", "3", "4", "5"]
        assert (totals.documents, totals.bad, totals.position) == (5, 1, 50)
        assert sentences == ["file, line 2: KeyError: 'two'"]


def test_progress_is_reported_for_every_document():
    seen = []
    run(TEXTS, progress=lambda totals: seen.append((totals.documents, totals.position)))
    assert seen == [(i + 1, 10 * i) for i in range(6)]


def test_formatted_totals():
    totals = ExtractionTotals(documents=1, entities=1, relations=2, words=4000, position=250)
    assert format_totals(totals, None) == "1 document, 1 entity, 2 relations"
    totals.bad, totals.documents = 1, 1200
    assert format_totals(totals, "x") == "1,200 documents, 1 entity, 2 relations in x; skipped 1 text"
    assert format_progress(totals, 100.0, 1000) == "1,200 documents  12.0/s  40 words/s  5 min left"
    assert format_progress(totals, 10.0, None) == "1,200 documents  120.0/s  400 words/s"
