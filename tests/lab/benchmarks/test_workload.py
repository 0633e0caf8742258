import pytest
from tests.small_models import SENTENCES

from cascade_srn import write_documents
from cascade_srn.errors import DataError
from cascade_srn.lab.benchmarks import workload
from cascade_srn.lab.benchmarks.workload import read_corpus
from cascade_srn.types import Document


def test_the_example_corpus_is_the_default():
    corpus = read_corpus(None, 7)
    assert corpus.name == "news/train.jsonl"
    assert len(corpus.documents) == len(corpus.sentences) == len(corpus.examples) == 7
    described = corpus.describe()
    assert described["words"] == corpus.n_words == sum(len(s) for s in corpus.sentences)
    assert described["entities"] > described["triples"] > 0


def test_only_sentences_with_words(tmp_path):
    write_documents([Document.from_sentences(SENTENCES)], tmp_path / "a.jsonl")
    assert len(read_corpus(str(tmp_path / "a.jsonl"), 100).sentences) == len(SENTENCES) - 1


def test_a_corpus_without_sentences_is_refused(tmp_path):
    write_documents([Document("")], tmp_path / "a.jsonl")
    with pytest.raises(DataError, match="jsonl"):
        read_corpus(str(tmp_path / "a.jsonl"), 5)


def test_outside_the_source_tree_data_must_be_given(monkeypatch, tmp_path):
    monkeypatch.setattr(workload, "__file__", str(tmp_path / "a" / "b" / "c" / "workload.py"))
    with pytest.raises(DataError, match="example corpus"):
        read_corpus(None, 5)
