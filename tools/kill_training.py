"""Kill a small training at random moments and at every file operation, resume it, and compare the final weights.

Run it from the root of the repository:

    python tools/kill_training.py --kills 12

It trains on the first documents of ``examples/news`` in a temporary folder. Each training is a forked process, so that
the package is imported once. Exit code 0 means that every resumed run ended with the weights of an undisturbed run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Operations after which the folder is different, or the disk is.
OPERATIONS = ("replace", "rename", "fsync", "unlink", "remove", "rmdir", "mkdir", "truncate")
LOCK = ".cascade-srn.lock"
RECIPE = {
    "model": {
        "encoder": {"name": "fresh"},
        "hidden_width": 16,
        "matcher_width": 16,
        "thresholds": {"entity": 0.1, "subject": 0.1, "object": 0.1},
    },
    "fresh": {"width": 32, "n_layers": 1, "n_heads": 2, "vocabulary": 200},
    "training": {
        "epochs": 1,
        "batch_size": 4,
        "learning_rate": 0.04,
        "encoder_learning_rate": 0.01,
        "ema": 0.7,
        "corruption": 0.1,
        "evaluate_every": None,
        "evaluate_steps": 3,
        "save_every": None,
        "save_steps": 2,
        "log_steps": 1,
        "trackers": [],
    },
}


def write_recipe(folder: Path, n_documents: int) -> Path:
    """Write the data and a recipe, as JSON, which is YAML."""
    data = {}
    for split, count in (("train", n_documents), ("dev", n_documents // 2)):
        lines = (ROOT / "examples" / "news" / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
        data[split] = str(folder / f"{split}.jsonl")
        Path(data[split]).write_text("\n".join(lines[:count]) + "\n", encoding="utf-8")
    path = folder / "recipe.yaml"
    path.write_text(json.dumps({**RECIPE, "data": data, "output": str(folder / "run")}), encoding="utf-8")
    return path


def die_at(point: int | None, count_file: Path | None) -> None:
    """Have this process kill itself just before its n-th file operation, or count its operations to the end."""
    count = 0

    def watched(operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == point:
                os.kill(os.getpid(), signal.SIGKILL)
            if count_file is not None:
                # Opened and closed each time: the process may end without a word.
                with open(count_file, "w", encoding="ascii") as handle:
                    handle.write(str(count))
            return operation(*arguments, **options)

        return call

    for name in OPERATIONS:
        setattr(os, name, watched(getattr(os, name)))


def train(
    recipe: Path,
    output: Path,
    *,
    point: int | None = None,
    seconds: float | None = None,
    count_file: Path | None = None,
) -> int:
    """Train in a process of its own, resuming what is there; return its exit code, negative if it was killed.

    Args:
        recipe: the recipe.
        output: the folder of the run.
        point: the file operation before which the process kills itself.
        seconds: the time after which it is killed from outside.
        count_file: where the number of its file operations goes.
    """
    process = os.fork()
    if process == 0:
        code = 1
        try:
            with open(os.devnull, "w", encoding="utf-8") as silent:
                os.dup2(silent.fileno(), 1)
                os.dup2(silent.fileno(), 2 if point or seconds else 1)
            die_at(point, count_file)
            from cascade_srn.cli import main

            main(["train", str(recipe), f"output={output}", "--resume", "--device", "cpu"])
            code = 0
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        finally:
            os._exit(code)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(process, signal.SIGKILL)  # of a process that has ended there is still an entry
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def outcome(run: Path) -> dict[str, Any]:
    """Return the bytes of all final weights, and the log without its times."""
    state = json.loads((run / "last" / "state.json").read_text(encoding="utf-8"))
    lines = (run / "log.jsonl").read_text(encoding="utf-8").splitlines()
    untimed = ("seconds", "words_per_second")
    return {
        "best weights": (run / "best" / "model.safetensors").read_bytes(),
        "last weights": (run / "last" / state["tensors"]).read_bytes(),
        "log": [{key: value for key, value in json.loads(line).items() if key not in untimed} for line in lines],
        # A lock file of a process that was killed keeps nobody out, and may stay.
        "hidden files": sorted(path.name for path in run.rglob(".*") if path.name != LOCK),
    }


def compare(run: Path, expected: dict[str, Any], told: str) -> bool:
    """Say what differs from the undisturbed run."""
    try:
        found = outcome(run)
    except (OSError, ValueError, KeyError) as error:
        print(f"FAILED {told}: {type(error).__name__}: {error}", flush=True)
        return False
    different = [name for name, value in expected.items() if found[name] != value]
    if different:
        print(f"FAILED {told}: other {', '.join(different)}", flush=True)
    return not different


def main() -> int:
    """Run the experiment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=12, help="kills at random moments (default: 12)")
    parser.add_argument("--every", type=int, default=1, help="take every n-th file operation only (default: 1)")
    parser.add_argument("--documents", type=int, default=8, help="training documents (default: 8)")
    parser.add_argument("--seed", type=int, default=0, help="decides the random moments (default: 0)")
    options = parser.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1")
    import torch

    import cascade_srn.training.display
    import cascade_srn.training.run  # noqa: F401 (imported once, before processes are forked)

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="kill-training-") as name:
        folder = Path(name)
        recipe = write_recipe(folder, options.documents)
        if train(recipe, folder / "whole", count_file=folder / "count") != 0:
            print("FAILED: the undisturbed run did not end well")
            return 1
        expected = outcome(folder / "whole")
        # A second one, since the first one was slowed down by reading libraries from disk.
        started = time.perf_counter()
        if train(recipe, folder / "again") != 0 or not compare(folder / "again", expected, "without a kill"):
            return 1
        whole = time.perf_counter() - started
        n_operations = int((folder / "count").read_text(encoding="ascii"))
        print(f"undisturbed: {whole:.1f} s, {n_operations} file operations", flush=True)
        good = _at_operations(recipe, folder, expected, range(1, n_operations + 1, options.every))
        good &= _at_moments(recipe, folder, expected, options.kills, whole, random.Random(options.seed))
    print("all runs ended with the same weights" if good else "some runs FAILED")
    return 0 if good else 1


def _at_operations(recipe: Path, folder: Path, expected: dict[str, Any], points: range) -> bool:
    """For each point: a new run, killed there once, then resumed to its end."""
    n_killed = n_same = 0
    for point in points:
        run = folder / "run"
        shutil.rmtree(run, ignore_errors=True)
        n_killed += train(recipe, run, point=point) == -signal.SIGKILL
        resumed = train(recipe, run)
        if resumed != 0:
            print(f"FAILED at operation {point}: the resumed run exited with {resumed}", flush=True)
            continue
        n_same += compare(run, expected, f"at operation {point}")
    print(f"file operations: {len(points)} kill points, {n_killed} killed, {n_same} with the same weights", flush=True)
    return n_same == n_killed == len(points)


def _at_moments(
    recipe: Path, folder: Path, expected: dict[str, Any], n_kills: int, whole: float, rng: random.Random
) -> bool:
    """Kill runs again and again at random moments, resuming each to its end, until enough kills came before the end."""
    run = folder / "random"
    n_killed = n_runs = n_same = 0
    longest = whole
    while n_killed < n_kills:
        if train(recipe, run, seconds=rng.uniform(0.05, 0.95) * longest) == -signal.SIGKILL:
            n_killed += 1
            continue
        # It ended before the kill: what is left is shorter than expected.
        longest = max(0.3, 0.7 * longest)
        n_runs, n_same = n_runs + 1, n_same + compare(run, expected, "at random moments")
        shutil.rmtree(run)
    ended = train(recipe, run) == 0
    n_runs, n_same = n_runs + 1, n_same + (ended and compare(run, expected, "at random moments"))
    print(f"random moments: {n_killed} kills in {n_runs} runs, {n_same} of them with the same weights", flush=True)
    return n_same == n_runs


if __name__ == "__main__":
    sys.exit(main())
