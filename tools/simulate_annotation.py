"""Simulate annotation: does selecting sentences by a strategy give better models than annotating random ones?

    python tools/simulate_annotation.py --data data/scierc --encoder all-MiniLM-L6-v2 --output runs/simulated
    python tools/simulate_annotation.py --output runs/simulated --table
    python tools/simulate_annotation.py --output runs/simulated --plot learning.svg

The training sentences are the pool, and their gold annotations are the answers of the annotator. The first sentences
are random and the same for all strategies of a seed. Then a model is trained on the annotated sentences, it ranks a
random sample of the others (``--candidates``), the best are annotated, and a new model is trained on all. The last
weights of a model count, and thresholds are chosen on the development documents. The scores are those of the test
documents. The encoder must not have seen the annotations, as that of the bundled model has.

Each finished training is one file with one JSON line in the output folder, written atomically. A second start skips
what is there. Seeds come one after the other, so that complete comparisons of few seeds are there first.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STRATEGIES = ("random", "combined", "uncertainty", "coverage", "diversity")
SIZES = (50, 100, 200, 400)
SEEDS = (0, 1, 2, 3, 4)
MEASURES = {"ner": "NER", "re_boundaries": "RE boundaries", "re_strict": "RE strict"}
BATCH_SIZE = 8
# Sentences that a training sees in all epochs together, and the range of epochs.
SEEN_SENTENCES, MIN_EPOCHS, MAX_EPOCHS = 4000, 10, 60
START = "random"
# Relation types without a direction, as in the recipes of SciERC.
SYMMETRIC = ["COMPARE", "CONJUNCTION"]


@dataclass(frozen=True, order=True)
class Job:
    """One training: the number of sentences, the strategy that chose them, and the seed."""

    seed: int
    n: int
    strategy: str

    def file(self, folder: Path) -> Path:
        """Return the file with the result."""
        return folder / f"{self.strategy}-{self.n}-seed{self.seed}.json"


def plan(strategies: Sequence[str], sizes: Sequence[int], seeds: Sequence[int]) -> list[Job]:
    """Return all trainings in order. The first size has one training for all strategies."""
    later = [(n, strategy) for n in sizes[1:] for strategy in strategies]
    return [Job(seed, n, strategy) for seed in seeds for n, strategy in [(sizes[0], START), *later]]


def previous(job: Job, sizes: Sequence[int]) -> Job | None:
    """Return the training whose model chooses the sentences of a job, or None for the first one."""
    at = sizes.index(job.n)
    if at == 0:
        return None
    return Job(job.seed, sizes[at - 1], START if at == 1 else job.strategy)


def read_results(folder: Path) -> list[dict[str, Any]]:
    """Return the results of all finished trainings."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*-seed*.json"))]


def write_atomically(path: Path, record: dict[str, Any]) -> None:
    """Write one JSON line to a file that appears complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with hidden.open("w", encoding="utf-8") as handle:
        handle.write(json.dumps(record) + "\n")
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(hidden, path)


def simulate(options: argparse.Namespace) -> None:
    """Run all trainings that are not finished, each in a process of its own."""
    planned = plan(options.strategies, options.sizes, options.seeds)
    jobs = [job for job in planned if not job.file(options.output).exists()]
    running: dict[Job, subprocess.Popen[bytes]] = {}
    try:
        while jobs or running:
            for job in [job for job, process in running.items() if process.poll() is not None]:
                if code := running.pop(job).returncode:
                    raise SystemExit(f"the training {job} ended with exit code {code}")
                print(f"{time.strftime('%H:%M:%S')} finished {job}", flush=True)
            while len(running) < options.parallel and (job := next_ready(jobs, options)) is not None:
                jobs.remove(job)
                running[job] = start(job)
            time.sleep(0.5)
    finally:
        for process in running.values():
            process.terminate()


def next_ready(jobs: Sequence[Job], options: argparse.Namespace) -> Job | None:
    """Return the first job whose sentences are chosen."""
    for job in jobs:
        before = previous(job, options.sizes)
        if before is None or before.file(options.output).exists():
            return job
    return None


def start(job: Job) -> subprocess.Popen[bytes]:
    """Start this script for one job, with a single thread."""
    command = [sys.executable, *sys.argv, "--job", f"{job.seed},{job.n},{job.strategy}"]
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    return subprocess.Popen(command, env=os.environ | threads)


def run_job(job: Job, options: argparse.Namespace) -> None:
    """Train and score one model, and choose the sentences that are annotated next."""
    import torch

    from cascade_srn import Document, Extractor, Schema, read_documents

    torch.set_num_threads(1)
    started = time.perf_counter()
    splits = ("train", "dev", "test")
    train, dev, test = (list(read_documents(options.data / f"{split}.json", "dygie")) for split in splits)
    schema = Schema.from_documents(train, symmetric=SYMMETRIC)
    pool = [sentence for document in train for sentence in document.sentences if 4 <= len(sentence) <= 100]
    before = previous(job, options.sizes)
    if before is None:
        chosen = random.Random(job.seed).sample(range(len(pool)), job.n)
    else:
        record = json.loads(before.file(options.output).read_text(encoding="utf-8"))
        chosen = record["selected"] + record["next"][job.strategy]
    documents = [Document.from_sentences([pool[number]], id=str(number)) for number in chosen]
    model = train_model(documents, dev, schema, job, options.encoder)
    result = {
        "strategy": job.strategy,
        "n": job.n,
        "seed": job.seed,
        "words": sum(len(pool[number]) for number in chosen),
        "entities": sum(len(pool[number].entities) for number in chosen),
        "relations": sum(len(pool[number].triples) for number in chosen),
        **score_model(model, test),
        "selected": chosen,
        "next": choose_next(Extractor(model), pool, documents, job, options),
        "seconds": round(time.perf_counter() - started, 1),
    }
    write_atomically(job.file(options.output), result)


def train_model(documents: Sequence[Any], dev: Sequence[Any], schema: Any, job: Job, encoder: str) -> Any:
    """Train a model with the settings of ``recipes/scierc-small.yaml``, except for batches and epochs."""
    import torch

    from cascade_srn import Model, ModelSettings, TrainingSettings, train
    from cascade_srn.evaluation.calibration.calibrate import calibrate
    from cascade_srn.network.examples import examples_of

    settings = ModelSettings.from_dict({"encoder": {"name": encoder}, "fusion": "swift"})
    model = Model.create(settings, schema, seed=job.seed)
    if torch.cuda.is_available():
        model.to("cuda")
    training = TrainingSettings(
        epochs=max(MIN_EPOCHS, min(MAX_EPOCHS, round(SEEN_SENTENCES / len(documents)))),
        batch_size=BATCH_SIZE,
        learning_rate=1.5e-3,
        encoder_learning_rate=1.5e-4,
        corruption=0.2,
        seed=job.seed,
        trackers=(),
        # Capturing takes longer than so few steps.
        cuda_graphs=False,
    )
    for _ in train(model, documents, (), training):
        pass
    return calibrate(model, examples_of(dev))


def score_model(model: Any, documents: Sequence[Any]) -> dict[str, float]:
    """Return F1 on annotated documents."""
    from cascade_srn.network.examples import examples_of
    from cascade_srn.training.loop import evaluate

    scores = evaluate(model, examples_of(documents), overlaps="flat")
    return {name: getattr(scores, name).counts.f1 for name in MEASURES}


def choose_next(
    extractor: Any, pool: Sequence[Any], annotated: Sequence[Any], job: Job, options: argparse.Namespace
) -> dict[str, list[int]]:
    """Return the sentences that are annotated next, by strategy. After the first size, all strategies choose.

    So strategies can be added later.
    """
    from cascade_srn import Document
    from cascade_srn.apps.annotation.strategies import STRATEGIES as KINDS
    from cascade_srn.apps.annotation.strategies import rank_units
    from cascade_srn.apps.annotation.units import DecisionFinder, UnitSettings

    at = options.sizes.index(job.n)
    if at + 1 == len(options.sizes):
        return {}
    strategies = list(KINDS) if at == 0 else [job.strategy]
    taken = {document.id for document in annotated}
    rest = [number for number in range(len(pool)) if str(number) not in taken]
    candidates = random.Random(f"{job.seed} {job.n}").sample(rest, min(options.candidates, len(rest)))
    plain = [Document.from_words([pool[number].words], id=str(number)) for number in candidates]
    split = UnitSettings(seed=job.seed).split
    units = [unit for position, document in enumerate(plain) for unit in split(document, position)]
    if any(KINDS[strategy].needs_model for strategy in strategies):
        units = DecisionFinder(extractor).find(units)
    n_more = options.sizes[at + 1] - job.n
    return {
        strategy: [int(unit.document.id) for unit, _ in rank_units(units, strategy, n_more, annotated)]
        for strategy in strategies
    }


def summarise(results: Sequence[dict[str, Any]]) -> Iterator[tuple[str, int, list[dict[str, Any]]]]:
    """Yield strategy, number of sentences and results, without seeds that a strategy has not finished.

    Means over different seeds could not be compared. The first size belongs to all strategies.
    """
    strategies = sorted({result["strategy"] for result in results}, key=lambda name: (name != START, name))
    sizes = sorted({result["n"] for result in results})
    found = {(r["strategy"], r["n"], r["seed"]): r for r in results}
    for strategy in strategies:
        for n in sizes:
            owner = START if n == sizes[0] else strategy
            seeds = {seed for _, size, seed in found if size == n}
            complete = [s for s in seeds if n == sizes[0] or all((other, n, s) in found for other in strategies)]
            yield strategy, n, [found[owner, n, seed] for seed in sorted(complete)]


def format_table(results: Sequence[dict[str, Any]]) -> str:
    """Return a table in Markdown: mean and standard deviation of F1 over seeds, and the difference to random."""
    lines = ["| sentences | strategy | seeds | words | " + " | ".join(MEASURES.values()) + " |"]
    lines.append("| ---: | --- | ---: | ---: |" + " --- |" * len(MEASURES))
    rows = {(n, strategy): members for strategy, n, members in summarise(results) if members}
    for (n, strategy), members in sorted(rows.items(), key=lambda row: row[0][0]):
        first = n == min(size for size, _ in rows)
        if first and strategy != START:
            continue
        words = statistics.mean(member["words"] for member in members)
        cells = [_cell(members, rows[n, START], name, strategy) for name in MEASURES]
        name = "all" if first else strategy
        lines.append(f"| {n} | {name} | {len(members)} | {words:,.0f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(members: Sequence[dict[str, Any]], baseline: Sequence[dict[str, Any]], name: str, strategy: str) -> str:
    text = _mean_and_deviation([100 * member[name] for member in members])
    if strategy == START:
        return text
    gains = [100 * (member[name] - other[name]) for member, other in zip(members, baseline, strict=True)]
    return f"{text} ({statistics.mean(gains):+.1f})"


def _mean_and_deviation(values: Sequence[float]) -> str:
    deviation = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{deviation}"


def draw(results: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw mean and standard deviation of NER and strict RE over annotated sentences, and over annotated words."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [(strategy, n, members) for strategy, n, members in summarise(results) if members]
    figure, axes = pyplot.subplots(2, 2, figsize=(9, 6.5), sharey="row", layout="constrained")
    for row, name in enumerate(("ner", "re_strict")):
        for column, unit in enumerate(("sentences", "words")):
            axis = axes[row][column]
            for strategy in dict.fromkeys(strategy for strategy, _, _ in rows):
                own = [(n, members) for name_, n, members in rows if name_ == strategy]
                x = [n if unit == "sentences" else statistics.mean(m["words"] for m in members) for n, members in own]
                values = [[100 * member[name] for member in members] for _, members in own]
                spread = [statistics.stdev(v) if len(v) > 1 else 0.0 for v in values]
                axis.errorbar(x, list(map(statistics.mean, values)), spread, label=strategy, marker="o", capsize=3)
            axis.set_xlabel(f"annotated {unit}")
            axis.grid(alpha=0.3)
        axes[row][0].set_ylabel(f"{MEASURES[name]} F1 on test")
    axes[0][0].legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=150)
    pyplot.close(figure)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with train.json, dev.json and test.json (DyGIE++)")
    parser.add_argument("--encoder", help="folder or hub id of the encoder, which must not know the annotations")
    parser.add_argument("--output", type=Path, required=True, help="folder of the results")
    parser.add_argument("--strategies", type=lambda text: text.split(","), default=list(STRATEGIES))
    parser.add_argument("--seeds", type=_numbers, default=list(SEEDS))
    parser.add_argument("--sizes", type=_numbers, default=list(SIZES))
    parser.add_argument("--candidates", type=int, default=600, help="sentences that are ranked in each round")
    parser.add_argument("--parallel", type=int, default=2, help="trainings at a time, with one thread each")
    parser.add_argument("--table", action="store_true", help="print the table of the results and end")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the results and end")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not (options.table or options.plot) and not (options.data and options.encoder):
        parser.error("--data and --encoder are needed to simulate")
    return options


def _numbers(text: str) -> list[int]:
    return sorted({int(part) for part in text.split(",")})


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    options = parse(arguments)
    if options.job:
        seed, n, strategy = options.job.split(",")
        run_job(Job(int(seed), int(n), strategy), options)
    elif options.table or options.plot:
        results = read_results(options.output)
        if not results:
            raise SystemExit(f"{options.output} has no results")
        if options.table:
            print(format_table(results))
        if options.plot:
            draw(results, options.plot)
    else:
        # SIGTERM ends the trainings, too.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        simulate(options)


if __name__ == "__main__":
    main()
