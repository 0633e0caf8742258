"""A short form of the tool that kills the annotation service at random moments."""

import sys

import pytest
from tools.kill_annotation import disturb


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="uses signals of POSIX")
def test_no_acknowledged_change_is_lost(tmp_path):
    journal = disturb(tmp_path, 8, seed=1, longest=0.5, log_bytes=20_000)
    assert journal.problems == []
    assert journal.n_changes > 0
