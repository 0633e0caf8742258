"""Kill a corpus job and its workers at random moments, resume it, and compare the tables with an undisturbed run.

Run it from the root of the repository:

    python tools/kill_corpus.py --engine local --kills 20

The texts are generated. A kill hits the driver or one of its workers. A killed driver is started again with ``resume``,
and a finished job is started again in a new folder, until there were enough kills. Exit code 0 means that all tables
were equal, byte for byte, with no document lost or repeated.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[1]
TABLES = ("documents", "entities", "relations", "errors")
WORDS = """a and by for in of on the to with accuracy annotation attention baseline corpus data decoder dependency
embedding encoder entity evaluation extraction graph grammar kernel language learning machine method model network
neural parser parsing precision probabilistic recall recognition recurrent relation segmentation semantic sentence
speech statistical summarization supervised syntactic tagger tagging task text training translation tree vector word"""
# A worker of Ray shows its class as the name of its process. The death of an agent of Ray ends Ray and the driver.
WORKERS = ("cascade_srn.runs.children", "ray::RayWorker")
# A job that does not end in this time hangs.
PATIENCE = 1800.0


@dataclass
class Options:
    """What to run and how often to kill it."""

    model: str | None = None
    engine: str = "local"
    workers: int = 2
    kills: int = 20
    documents: int = 400
    shard_documents: int = 20
    seed: int = 0
    longest: float = 15.0


@dataclass
class Outcome:
    """Kills by victim, number of finished jobs, and what was different."""

    kills: dict[str, int] = field(default_factory=lambda: {"driver": 0, "worker": 0})
    n_jobs: int = 0
    differences: list[str] = field(default_factory=list)


def write_texts(path: Path, number: int, rng: random.Random) -> None:
    """Write generated texts as JSON lines, with a few records that have no text."""
    with path.open("w", encoding="utf-8") as handle:
        for row in range(number):
            sentences = (" ".join(rng.choices(WORDS.split(), k=rng.randint(4, 30))) for _ in range(rng.randint(1, 8)))
            text = None if row % 97 == 50 else " ".join(f"{sentence.capitalize()}." for sentence in sentences)
            handle.write(json.dumps({"id": f"text-{row}", "text": text}) + "\n")


def drive(options: Options, source: Path, output: Path) -> None:
    """Run or resume the job in this process."""
    from cascade_srn.apps.corpus import CorpusSettings, InputSettings, run

    settings = CorpusSettings(
        inputs=InputSettings(shard_documents=options.shard_documents),
        device="cpu",
        # Every kill of a worker costs an attempt.
        max_attempts=1000,
    )
    run(
        source,
        output,
        model=options.model,
        engine=options.engine,
        workers=options.workers,
        resume=True,
        settings=settings,
    )


def start(options: Options, source: Path, output: Path) -> subprocess.Popen[bytes]:
    """Start a driver."""
    details = json.dumps([options.__dict__, str(source), str(output)])
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen([sys.executable, __file__, "--drive", details], env={**os.environ, "PYTHONPATH": paths})


def find_workers(driver: int) -> list[psutil.Process]:
    """Return the living worker processes below a driver."""
    found = []
    for child in psutil.Process(driver).children(recursive=True):
        try:
            if child.status() != psutil.STATUS_ZOMBIE and any(name in " ".join(child.cmdline()) for name in WORKERS):
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found


def kill(driver: subprocess.Popen[bytes], rng: random.Random) -> str:
    """Kill the driver or one of its workers, and return which; empty if there was nothing to kill."""
    try:
        workers = find_workers(driver.pid)
        if workers and rng.random() < 0.5:
            rng.choice(workers).kill()
            return "worker"
    except psutil.NoSuchProcess:
        return ""
    if driver.poll() is None:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        # Workers of a killed driver end by themselves.
        return "driver"
    return ""


def fingerprints(output: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of the tables, and of the description of the job with its counts."""
    paths = [path for table in TABLES for path in sorted((output / table).iterdir())]
    found = {f"{path.parent.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    counts = json.loads((output / "manifest.json").read_text(encoding="utf-8"))["counts"]
    left = sorted(path.name for path in output.iterdir() if path.name.startswith(".") and path.name.endswith(".tmp"))
    return {**found, "counts": json.dumps(counts), "leftovers": json.dumps(left)}


def disturb(options: Options, folder: Path) -> Outcome:
    """Run the experiment in a folder."""
    rng, source, outcome = random.Random(options.seed), folder / "texts.jsonl", Outcome()
    write_texts(source, options.documents, rng)
    undisturbed = start(options, source, folder / "undisturbed")
    if undisturbed.wait(PATIENCE) != 0:
        outcome.differences.append(f"the undisturbed job ended with exit code {undisturbed.returncode}")
        return outcome
    expected = fingerprints(folder / "undisturbed")
    while sum(outcome.kills.values()) < options.kills and not outcome.differences:
        outcome.n_jobs += 1
        output = folder / f"job-{outcome.n_jobs}"
        if not _disturb_one(options, source, output, rng, outcome):
            break
        found = fingerprints(output)
        outcome.differences += [
            f"{output.name}: {name}" for name in {**expected, **found} if expected.get(name) != found.get(name)
        ]
    return outcome


def _disturb_one(options: Options, source: Path, output: Path, rng: random.Random, outcome: Outcome) -> bool:
    """Run one job to its end, with kills until there are enough; return whether it ended well."""
    driver = start(options, source, output)
    begun = time.monotonic()
    try:
        while True:
            may_kill = sum(outcome.kills.values()) < options.kills
            try:
                driver.wait(rng.uniform(0.1, options.longest) if may_kill else PATIENCE)
            except subprocess.TimeoutExpired:
                victim = kill(driver, rng) if may_kill else ""
                if victim:
                    outcome.kills[victim] += 1
                if time.monotonic() - begun > PATIENCE:
                    outcome.differences.append(f"{output.name} does not end")
                    return False
            if driver.poll() == 0:
                return True
            if driver.poll() == -signal.SIGKILL:
                driver = start(options, source, output)
            elif driver.poll() is not None:
                outcome.differences.append(f"{output.name} ended with exit code {driver.poll()}")
                return False
    finally:
        driver.kill()
        driver.wait()


def main(arguments: list[str] | None = None) -> int:
    """Run the experiment and print its outcome."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="model folder (default: the bundled model)")
    parser.add_argument("--engine", default="local", choices=("local", "ray"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--shard-documents", type=int, default=20)
    parser.add_argument("--longest", type=float, default=15.0, help="longest time between two kills, in seconds")
    parser.add_argument("--seed", type=int, default=0, help="decides texts, moments and victims")
    parser.add_argument("--drive", help=argparse.SUPPRESS)
    values: dict[str, Any] = vars(parser.parse_args(arguments))
    details = values.pop("drive")
    if details is not None:
        given, source, output = json.loads(details)
        drive(Options(**given), Path(source), Path(output))
        return 0
    options = Options(**values)
    with tempfile.TemporaryDirectory(prefix="kill-corpus-") as name:
        outcome = disturb(options, Path(name))
    print(
        f"{options.engine}: {outcome.kills['driver']} kills of the driver and {outcome.kills['worker']} of workers in "
        f"{outcome.n_jobs} jobs of {options.documents} documents"
    )
    for difference in outcome.differences:
        print(f"FAILED {difference}")
    print("some jobs FAILED" if outcome.differences else "all tables are equal to those of an undisturbed job")
    return 1 if outcome.differences else 0


if __name__ == "__main__":
    sys.exit(main())
