"""Mistakes on the way: one sentence that says what to do, exit code 2, and everything as it was."""

import pytest
from tests.twelve_sentences import DOCUMENTS
from tests.users_path.commands import run

from cascade_srn import write_documents

pytestmark = pytest.mark.slow

TEST = "examples/news/test.jsonl"
MODEL = "runs/news/best"


@pytest.fixture(scope="session")
def finished(workplace, reported):
    """What there is to lose: a run, its report, a corpus in two more formats, and one with other labels."""
    write_documents(DOCUMENTS, workplace / "other.jsonl")
    (workplace / "mine").mkdir()
    write_documents(DOCUMENTS, workplace / "mine" / "corpus.json", format="spert")
    write_documents(DOCUMENTS, workplace / "mine" / "brat", format="brat")
    (workplace / "malformed.jsonl").write_text('{"id": "d", "text": 3}\n', encoding="utf-8")
    return workplace


def _files(folder):
    """All files with what is in them, and all folders."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ["train", "recipes/news.yaml", "training.epoch=30"],
            "Did you mean 'training.epochs'?",
            id="a key that does not exist",
        ),
        pytest.param(
            ["train", "recipes/new.yaml"],
            "'recipes/new.yaml'",
            id="a recipe that does not exist",
        ),
        pytest.param(
            ["train", "recipes/news.yaml", "data.dev=examples/news/valid.jsonl", "output=runs/next"],
            "data.dev is 'examples/news/valid.jsonl'",
            id="data that does not exist",
        ),
        pytest.param(
            ["train", "recipes/news.yaml", "data.train=malformed.jsonl", "output=runs/next"],
            "malformed.jsonl, line 1",
            id="data that is malformed",
        ),
        pytest.param(
            ["train", "recipes/news.yaml", "data.train=other.jsonl", "output=runs/next"],
            "data.train, document '0', sentence 0",
            id="data with labels that the schema lacks",
        ),
        pytest.param(
            ["train", "recipes/news.yaml"],
            "'runs/news' already",
            id="a run that is there already",
        ),
        pytest.param(
            ["train", "recipes/news.yaml", "training.epochs=30", "--resume"],
            "the run in 'runs/news' was started with training.epochs=7",
            id="another recipe to resume with",
        ),
        pytest.param(
            ["train", "recipes/news.yaml", "output=mine", "--overwrite"],
            "the output folder 'mine' contains ",
            id="a folder that is no run",
        ),
        pytest.param(
            ["evaluate", MODEL, "other.jsonl", "--report", "report"],
            "other.jsonl has labels that the model 'runs/news/best' was not trained on: the relation types ['leads', "
            "'married-to'], where it knows born-in",
            id="data with labels that the model lacks",
        ),
        pytest.param(
            ["evaluate", MODEL, "examples/news/tset.jsonl", "--report", "report"],
            "examples/news/tset.jsonl does not exist",
            id="data that does not exist, to evaluate",
        ),
        pytest.param(
            ["evaluate", "runs/news", TEST, "--report", "report"],
            "there is no model in 'runs/news'",
            id="the run in place of its model",
        ),
        pytest.param(
            ["evaluate", TEST, MODEL, "--report", "report"],
            "the data, 'runs/news/best', are a model; give MODEL DATA",
            id="the data before the model",
        ),
        pytest.param(
            ["convert", "malformed.jsonl", "mine/corpus.json", "--to", "spert"],
            "malformed.jsonl, line 1",
            id="malformed data over good data",
        ),
        pytest.param(
            ["convert", TEST, "mine/corpus.json", "--to", "dygie"],
            "document 'news-277', sentence 0: a relation holds of the entity 'Product'",
            id="what a format cannot hold over good data",
        ),
        pytest.param(
            ["convert", TEST, "mine/brat", "--to", "brat"],
            "mine/brat exists and is not an empty folder",
            id="two corpora in one folder",
        ),
    ],
)
def test_one_sentence_and_nothing_lost(finished, arguments, message):
    before = _files(finished)
    outcome = run(*arguments, folder=finished)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("Error: ")
    assert outcome.err.count("\n") == 1
    assert message in outcome.err
    assert _files(finished) == before
