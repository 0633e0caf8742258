"""Processes that lock a folder, or try to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOLD = """
import sys
from cascade_srn.storage.lock import FolderLock
lock = FolderLock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_elsewhere(folder: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Run a second process that locks a folder during the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.communicate()


def can_hold(folder: str | Path) -> bool:
    """Return whether a second process can lock a folder. It releases the lock again."""
    command = [sys.executable, "-c", HOLD, str(folder)]
    tried = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    assert tried.stdout == "held\n" or "ConfigError: another process" in tried.stderr, tried.stderr
    return tried.returncode == 0
