import pytest
from tests.apps.integrations.models import GivenExtractor, save_small_model


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """Folder of a tiny random model."""
    return save_small_model(tmp_path_factory.mktemp("integrations") / "model")


@pytest.fixture
def given():
    """Extractor that finds certain words."""
    return GivenExtractor(
        {"tagger": ("Thing", 0.9), "parsing": ("Task", 0.8), "parser": ("Thing", 0.75)},
        [("tagger", "used-for", "parsing", 0.7), ("tagger", "compare", "parser", 0.6)],
    )
