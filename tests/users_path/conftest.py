"""A working folder with the results of two commands of the README: a run and a report."""

from pathlib import Path

import pytest
from tests.users_path.commands import NEWS, ROOT, SHORT, Outcome, from_readme, in_shell, read_json

from cascade_srn import Extractor, read_documents


@pytest.fixture(scope="session")
def workplace(tmp_path_factory) -> Path:
    """A working folder with the recipes and examples of the repository."""
    folder = tmp_path_factory.mktemp("workplace")
    for name in ("recipes", "examples"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.fixture(scope="session")
def trained(workplace) -> Outcome:
    """The training of the README with fewer epochs. The run is in runs/news."""
    outcome = in_shell([*from_readme("train recipes/news.yaml"), *SHORT, "--device", "cpu"], workplace)
    assert outcome.code == 0, outcome.err
    return outcome


@pytest.fixture(scope="session")
def reported(workplace, trained) -> Outcome:
    """The evaluation of the README. The report is in report."""
    outcome = in_shell([*from_readme("evaluate runs/news/best"), "--device", "cpu"], workplace)
    assert outcome.code == 0, outcome.err
    return outcome


@pytest.fixture(scope="session")
def summary(workplace, trained):
    """Summary of the run."""
    return read_json(workplace / "runs" / "news" / "summary.json")


@pytest.fixture(scope="session")
def gold(workplace):
    """The test documents."""
    return list(read_documents(workplace / NEWS / "test.jsonl"))


@pytest.fixture(scope="session")
def extractor(workplace, trained):
    """The trained model."""
    return Extractor.from_pretrained(workplace / "runs" / "news" / "best")
