from collections import Counter

import pytest
from tests.apps.extract.models import extractor, model_folder
from tools.fuzz import LONGEST, RARE, FuzzOptions, fuzz_texts, is_faultless, main, measure, violations

from cascade_srn import Document, Sentence, Span, Triple
from cascade_srn.extractor import Extractor


@pytest.mark.slow
def test_texts_are_of_all_kinds_and_can_be_encoded():
    texts = list(fuzz_texts(4 * RARE))
    counts = Counter(fuzz.kind for fuzz in texts)
    assert len(counts) == 23
    assert max(len(fuzz.text) for fuzz in texts) == LONGEST
    everything = "".join(fuzz.text for fuzz in texts)
    everything.encode()
    assert {"\x00", "\r", "\u0301", "\u202e", "\u00a0", "👍", "<", "\u200d"} <= set(everything)
    assert any(not fuzz.text for fuzz in texts)
    assert any(fuzz.text and not fuzz.text.strip() for fuzz in texts)


@pytest.mark.slow
def test_all_of_them_go_through_a_model():
    result = measure(FuzzOptions(texts=150, device="cpu", threshold=0.02), extractor())
    assert result.summary["violations"] == 0
    assert is_faultless(result)
    assert result.rows[-1]["kind"] == "all"
    assert result.rows[-1]["texts"] == 150


def test_pieces_are_the_whole():
    whole = [fuzz.text for fuzz in fuzz_texts(40, seed=3)]
    assert [fuzz.text for fuzz in fuzz_texts(20, seed=3)] == whole[:20]
    result = measure(FuzzOptions(texts=20, skip=20, seed=3, device="cpu", threshold=1), extractor())
    assert result.rows[-1]["characters"] == sum(map(len, whole[20:]))


def test_what_is_wrong_is_found():
    span, other = Span(0, 1, "X", 0.5), Span(1, 2, "X", 0.5)
    good = Document.from_sentences([Sentence.from_words(["ab", "cd"], [span, other], [Triple(span, "r", other, 0.1)])])
    assert list(violations("ab cd", good)) == []
    assert next(iter(violations("ab ce", good))) == "the document has another text"
    assert any("an entity is said to be 'cd' at [3, 5)" in phrase for phrase in violations("ab ce", good))
    missed = Document("ab cd", (Sentence(("ab",), ((0, 2),)),))
    assert list(violations("ab cd", missed)) == ["characters ((3, 5),) lie in no word"]
    for score in (None, 1.5):
        sure = Document.from_sentences([Sentence.from_words(["ab"], [Span(0, 1, "X", score)])])
        assert next(iter(violations("ab", sure))) == "a score is no probability"
    empty = Document("a", (Sentence(("", "a"), ((0, 0), (0, 1))),))
    assert "cannot be made a dictionary and back" in next(iter(violations("a", empty)))


def test_a_failure_is_a_violation_with_the_text_it_was_of(monkeypatch):
    whole = Extractor._predict

    def failing(self, documents, predictor, **chosen):
        if any("<" in document.text for document in documents):
            raise RuntimeError("out of order")
        return whole(self, documents, predictor, **chosen)

    monkeypatch.setattr(Extractor, "_predict", failing)
    result = measure(FuzzOptions(texts=40, device="cpu", threshold=1), extractor())
    assert not is_faultless(result)
    assert result.summary["violations"] == sum("<" in fuzz.text for fuzz in fuzz_texts(40))
    assert any("(markup, seed 0): RuntimeError: out of order" in note for note in result.notes)


def test_on_the_command_line(tmp_path, capsys):
    path = tmp_path / "fuzz.json"
    arguments = [
        "--model",
        model_folder(),
        "--texts", "20", "--threshold", "1", "--device", "cpu", "--output",
        str(path),
    ]  # fmt: skip
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert not stopped.value.code
    assert "0 violations" in capsys.readouterr().out
    assert str(tmp_path) not in path.read_text(encoding="utf-8")
