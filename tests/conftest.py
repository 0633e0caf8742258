"""Settings for all tests: no network, one thread, a fixed seed, and the rules of the test tiers."""

import base64
import gc
import logging
import os
import re
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
from hypothesis import settings

# Imports make no garbage worth collecting, and each collection visits all that they have made so far.
gc.disable()
# `make test-all` repeats the property tests with the profile "thorough".
settings.register_profile("cascade", deadline=None, print_blob=True, max_examples=15)
settings.register_profile("thorough", settings.get_profile("cascade"), max_examples=100)
settings.load_profile("cascade")
# The smallest picture, as a file.
_PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNgAAAAAgAB5Sfe/AAAAABJRU5ErkJggg==")


def pytest_collection_finish():
    """Leave what the imports have made out of each garbage collection, which takes a second of it otherwise."""
    gc.freeze()
    gc.enable()
    # pytest adds its handlers to every logger that does not propagate, before and after each phase of each test.
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("torch."):
            logging.getLogger(name).propagate = True


def pytest_sessionfinish():
    """Let the end of the interpreter free all objects again."""
    gc.unfreeze()


def pytest_ignore_collect(collection_path, config):
    """Do not import a module of the slow tier for the default one: engines and libraries take a minute to import."""
    if "not slow" in config.option.markexpr and collection_path.suffix == ".py":
        text = collection_path.read_text("utf-8")
        return bool(re.search(r"^pytestmark = pytest\.mark\.(slow|browser)$", text, re.MULTILINE)) or None
    return None


def pytest_collection_modifyitems(items):
    """Skip tests marked ``gpu`` without a GPU, and refuse tests that use a browser without the marker ``browser``."""
    torch = _import_torch()
    if torch is not None:
        # One thread is faster on tiny tensors.
        torch.set_num_threads(1)
    for item in items:
        if item.get_closest_marker("gpu") and (torch is None or not torch.cuda.is_available()):
            item.add_marker(pytest.mark.skip(reason="torch finds no CUDA device"))
        if "browser" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("browser"):
            raise pytest.UsageError(f"{item.nodeid} uses a browser. Mark it, or its module, with pytest.mark.browser.")


def _import_torch():
    """Return torch, or None in a plain install. It is not imported by the process that only distributes the tests."""
    try:
        import torch
    except ModuleNotFoundError:
        return None
    return torch


@pytest.fixture(autouse=True)
def _seeded():
    torch = _import_torch()
    if torch is None:
        return
    # Not torch.manual_seed, which formats the stack three times for devices that are not there.
    torch.default_generator.manual_seed(0)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(0)


@pytest.fixture(autouse=True, scope="session")
def _no_waiting():
    """Replace what takes long and shows nothing here: flushing to disk, and the picture at the end of each training.

    A test that uses the fixture ``real_curves`` draws the picture.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        training = sys.modules.get("cascade_srn.training.run")
        if training is not None:
            patch.setattr(training, "draw_curves", lambda log, path: path.write_bytes(_PNG))
        yield


@pytest.fixture(scope="module")
def browser():
    """A browser. The test is skipped without chromium."""
    from tests.drawing.browser import start_browser

    yield from start_browser()


@pytest.fixture
def real_curves(monkeypatch):
    """Draw the picture at the end of a training."""
    from cascade_srn.training import progress, run

    monkeypatch.setattr(run, "draw_curves", progress.draw_curves)
