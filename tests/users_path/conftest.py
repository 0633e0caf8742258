"""A place to work in, and in it what the README's two commands leave behind: a run and a report."""

from pathlib import Path

import pytest
from tests.users_path.commands import NEWS, ROOT, SHORT, Outcome, from_readme, in_shell, read_json

from cascade_srn import Extractor, read_documents


@pytest.fixture(scope="session")
def workplace(tmp_path_factory) -> Path:
    """A folder that looks like the repository to who reads the README."""
    folder = tmp_path_factory.mktemp("workplace")
    for name in ("recipes", "examples"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.fixture(scope="session")
def trained(workplace) -> Outcome:
    """The README's training, with fewer epochs. The run is in runs/news."""
    outcome = in_shell([*from_readme("train recipes/news.yaml"), *SHORT, "--device", "cpu"], workplace)
    assert outcome.code == 0, outcome.err
    return outcome


@pytest.fixture(scope="session")
def reported(workplace, trained) -> Outcome:
    """The README's evaluation of it. The report is in report."""
    outcome = in_shell([*from_readme("evaluate runs/news/best"), "--device", "cpu"], workplace)
    assert outcome.code == 0, outcome.err
    return outcome


@pytest.fixture(scope="session")
def summary(workplace, trained):
    """How the run ended, by its own account."""
    return read_json(workplace / "runs" / "news" / "summary.json")


@pytest.fixture(scope="session")
def gold(workplace):
    """The documents that the model is evaluated on."""
    return list(read_documents(workplace / NEWS / "test.jsonl"))


@pytest.fixture(scope="session")
def extractor(workplace, trained):
    """The trained model as it is used."""
    return Extractor.from_pretrained(workplace / "runs" / "news" / "best")
