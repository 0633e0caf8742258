"""Settings for all tests: no network, one thread, a fixed seed, and the rules of the test tiers."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
import torch
from hypothesis import settings

# One thread is faster on tiny tensors.
torch.set_num_threads(1)
settings.register_profile("cascade", deadline=None, print_blob=True)
settings.load_profile("cascade")


def pytest_collection_modifyitems(items):
    """Skip tests marked ``gpu`` without a GPU, and refuse tests that use a browser without the marker ``browser``."""
    for item in items:
        if item.get_closest_marker("gpu") and not torch.cuda.is_available():
            item.add_marker(pytest.mark.skip(reason="torch finds no CUDA device"))
        if "browser" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("browser"):
            raise pytest.UsageError(f"{item.nodeid} uses a browser. Mark it, or its module, with pytest.mark.browser.")


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
