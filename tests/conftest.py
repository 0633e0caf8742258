"""What all tests share: no network, and one thread, since tiny tensors only lose time to a second one."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("cascade", deadline=None, print_blob=True)
settings.load_profile("cascade")


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
