"""Small recipes, and runs in other processes that are killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from tests.twelve_sentences import DOCUMENTS

from cascade_srn.cli import main
from cascade_srn.formats.registry import write_documents
from cascade_srn.training.recipe import Recipe, load_recipe

# All random parts of training (dropout, corrupted and swapped entities, noise) and averaged weights are used. States
# and evaluations are within epochs, and the best weights change several times.
TRAINING = {
    "epochs": 10, "batch_size": 5, "learning_rate": 0.04, "encoder_learning_rate": 0.013,
    "schedule": "constant", "ema": 0.7, "corruption": 0.1, "noise": 0.2, "swapping": 0.2, "evaluate_every": None,
    "evaluate_steps": 3, "save_every": None, "save_steps": 4, "log_steps": 1, "trackers": [],
}  # fmt: skip
LOW = {"entity": 0.1, "subject": 0.1, "object": 0.1}


def write_recipe(folder: Path, **changes: Any) -> Path:
    """Write a recipe for the twelve sentences with a fresh encoder. ``changes`` replace settings of its sections."""
    write_documents(DOCUMENTS, folder / "train.jsonl")
    write_documents(DOCUMENTS[:6], folder / "dev.jsonl")
    values: dict[str, Any] = {
        "model": {"encoder": {"name": "fresh"}, "hidden_width": 16, "matcher_width": 16, "thresholds": LOW},
        "fresh": {"width": 32, "n_layers": 1, "n_heads": 2, "vocabulary": 200},
        "data": {"train": str(folder / "train.jsonl"), "dev": str(folder / "dev.jsonl"), "symmetric": ["married-to"]},
        "training": dict(TRAINING),
        "output": str(folder / "run"),
    }
    for section, change in changes.items():
        values[section] = {**values[section], **change} if isinstance(change, dict) else change
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def small_recipe(folder: Path, **changes: Any) -> Recipe:
    """Write and read such a recipe."""
    return load_recipe(write_recipe(folder, **changes))


def in_process(arguments: Sequence[object], *, kill_at: int | None = None) -> int:
    """Run a command in another process. Return its exit code, which is negative if it was killed.

    With ``kill_at``, the process is killed before its n-th operation on a file in a folder named "run…". Processes
    are forked from a server that has imported the package.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["cascade_srn.training.run", "cascade_srn.training.display"])
    process = context.Process(target=_command, args=([str(argument) for argument in arguments], kill_at))
    process.start()
    process.join()
    return int(process.exitcode or 0)


def launch(arguments: Sequence[object], *, n_processes: int = 2) -> subprocess.CompletedProcess[str]:
    """Run a command on the CPU, as ``accelerate launch`` does if there is more than one process."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", n_processes, "--master-port", port]
    command = [sys.executable, *(launcher if n_processes > 1 else []), "-m", "cascade_srn", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run([*map(str, command)], env=environment, capture_output=True, text=True, check=False)


FILE_EVENTS = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "shutil.rmtree")


def _command(arguments: list[str], kill_at: int | None) -> None:
    import torch

    torch.set_num_threads(1)
    count = 0

    def audit(event: str, details: tuple[Any, ...]) -> None:
        nonlocal count
        if event in FILE_EVENTS and details and f"{os.sep}run" in str(details[0]):
            count += 1
            if count == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    if kill_at is not None:
        sys.addaudithook(audit)
    main(arguments)
