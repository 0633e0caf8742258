"""Texts through an extractor into a writer: order, counts, what goes wrong."""

import pytest
from tests.extraction.models import extractor

from cascade_srn import Document
from cascade_srn.errors import DataError
from cascade_srn.extraction.run import Counts, extract_all, figures, told
from cascade_srn.extraction.sources import Text, Unreadable


class Kept:
    """A writer that keeps everything in memory, and refuses documents of one id."""

    def __init__(self, refused=None, broken=None):
        self.documents, self.ended = [], None
        self.refused, self.broken = refused, broken

    def write(self, document):
        if document.id == self.refused:
            raise DataError("it does not fit")
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
    counts = extract_all(extractor(), items, writer, tell=sentences.append, **chosen)
    return counts, writer, sentences


TEXTS = [Text(str(i), f"Ada Berg leads Norlux number {i}.", f"file, line {i}", 10 * i) for i in range(6)]


@pytest.mark.parametrize("batch_words", [1, 10, 4096])
def test_documents_come_in_order_and_are_counted(batch_words):
    counts, writer, sentences = run(TEXTS, batch_words=batch_words)
    assert [document.id for document in writer.documents] == [str(i) for i in range(6)]
    assert counts.documents == 6
    assert counts.words == 6 * 7
    assert counts.entities == sum(len(document.entities) for document in writer.documents) > 0
    assert counts.relations == sum(len(document.relations) for document in writer.documents) > 0
    assert (counts.bad, counts.position, sentences, writer.ended) == (0, 50, [], "finished")


def test_they_are_what_extracting_gives():
    _, writer, _ = run([TEXTS[0], Text("w", Document.from_words([["Ada", "Berg,"]], id="w"), "")], thresholds=0.0025)
    assert writer.documents[0].entities == extractor().extract(TEXTS[0].text, thresholds=0.0025).entities
    assert writer.documents[1].sentences[0].words == ("Ada", "Berg,")


@pytest.mark.parametrize("batch_words", [1, 4096])
def test_what_is_bad_is_told_in_order_with_its_place(batch_words):
    items = [TEXTS[0], Unreadable("first reason"), Text("h", "a \ud800", "place of h", 7), TEXTS[1], TEXTS[2]]
    counts, writer, sentences = run(items, Kept(refused="1"), batch_words=batch_words)
    assert [document.id for document in writer.documents] == ["0", "2"]
    assert (counts.documents, counts.bad) == (2, 3)
    assert sentences[0] == "first reason"
    assert sentences[1].startswith("place of h: the text holds half a surrogate pair")
    assert sentences[2] == "file, line 1: it does not fit"
    assert writer.ended == "finished"


@pytest.mark.parametrize("batch_words", [1, 4096])
def test_strictly_the_first_bad_text_ends_it_and_what_came_before_is_kept(batch_words):
    writer = Kept()
    with pytest.raises(DataError, match="the reason"):
        run([*TEXTS[:3], Unreadable("the reason"), *TEXTS[3:]], writer, strict=True, batch_words=batch_words)
    assert [document.id for document in writer.documents] == ["0", "1", "2"]
    assert writer.ended == "abandoned"


def test_an_interruption_tells_where_the_rest_is():
    sentences = []
    writer = Kept(broken="4")
    with pytest.raises(KeyboardInterrupt):
        extract_all(extractor(), TEXTS, writer, tell=sentences.append)
    assert writer.ended == "abandoned"
    (sentence,) = sentences
    assert sentence.startswith("stopped early; what was extracted until then is in some.partial.file: 4 documents, ")


@pytest.mark.parametrize(
    ("items", "message"),
    [([], "there was nothing to extract from"), ([Unreadable("x")], "none of the texts could be used")],
)
def test_nothing_at_all_is_an_error(items, message):
    writer = Kept()
    with pytest.raises(DataError, match=message):
        run(items, writer)
    assert writer.ended == "abandoned"


def test_what_cannot_be_kept_does_not_hide_why_it_ended():
    class Unkept(Kept):
        def abandon(self):
            raise DataError("the disk is full")

    sentences = []
    with pytest.raises(KeyboardInterrupt):
        extract_all(extractor(), TEXTS, Unkept(broken="2"), tell=sentences.append)
    assert sentences == ["stopped early, and what was extracted until then could not be kept: the disk is full"]


def test_a_segmenter_that_refuses_a_text(monkeypatch):
    def segmenter(text):
        return [[(0, 99)]] if "number 1" in text else [[(0, 3)]]

    monkeypatch.setattr(extractor(), "segmenter", segmenter)
    counts, _, sentences = run(TEXTS[:3])
    assert counts.documents == 2
    assert sentences[0].startswith("file, line 1: the segmenter puts a word of sentence 0 at characters [0, 99)")


class TestASegmenterThatFails:
    """With whatever error: it can be anyone's."""

    @pytest.fixture(autouse=True)
    def segmenter(self, monkeypatch):
        def segmenter(text):
            if "number 2" in text:
                raise KeyError("two")
            return [[(0, 3)]]

        monkeypatch.setattr(extractor(), "segmenter", segmenter)

    @pytest.mark.parametrize("batch_words", [1, 4096])
    def test_it_costs_the_others_nothing(self, batch_words):
        counts, writer, sentences = run(TEXTS, batch_words=batch_words)
        assert [document.id for document in writer.documents] == ["0", "1", "3", "4", "5"]
        assert (counts.documents, counts.bad, counts.position) == (5, 1, 50)
        assert sentences == ["file, line 2: KeyError: 'two'"]

    @pytest.mark.parametrize("batch_words", [1, 4096])
    def test_strictly_it_ends_the_work_once_what_came_before_is_written(self, batch_words):
        writer = Kept()
        with pytest.raises(DataError, match="^file, line 2: KeyError: 'two'$"):
            run(TEXTS, writer, strict=True, batch_words=batch_words)
        assert [document.id for document in writer.documents] == ["0", "1"]


def test_where_the_texts_end_badly_what_came_before_is_written():
    def texts():
        yield from TEXTS[:3]
        raise OSError("the disk is gone")

    writer = Kept()
    with pytest.raises(OSError, match="the disk is gone"):
        run(texts(), writer)
    assert [document.id for document in writer.documents] == ["0", "1", "2"]
    assert writer.ended == "abandoned"


def test_progress_is_told_at_every_document():
    seen = []
    run(TEXTS, progress=lambda counts: seen.append((counts.documents, counts.position)))
    assert seen == [(i + 1, 10 * i) for i in range(6)]


def test_what_is_shown():
    counts = Counts(documents=1, entities=1, relations=2, words=4000, position=250)
    assert told(counts, None) == "1 document, 1 entity, 2 relations"
    counts.bad, counts.documents = 1, 1200
    assert told(counts, "x") == "1,200 documents, 1 entity, 2 relations in x; 1 text could not be used"
    assert figures(counts, 100.0, 1000) == "1,200 documents  12.0/s  40 words/s  5 min left"
    assert figures(counts, 10.0, None) == "1,200 documents  120.0/s  400 words/s"
