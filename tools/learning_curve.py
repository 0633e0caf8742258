"""Train on growing samples of a corpus, from several starts, and print or draw the scores.

    python tools/learning_curve.py recipes/scierc-small.yaml curve \\
        --encoder "pretrained encoder=sentence-transformers/all-MiniLM-L6-v2" --model "news model=runs/news/best" \\
        --seeds 5 --parallel 2
    python tools/learning_curve.py curve --table --plot curve.svg --split test

The recipe names the data and all settings that a curve does not vary; ``KEY=VALUE`` changes them. Samples consist of
whole documents, in an order that the seed shuffles, so that a small sample is part of each larger one of the same seed.
The labels are those of all training documents. The last weights count, and thresholds are chosen on dev.

Each finished training is one line of ``FOLDER/results.jsonl``, which is replaced atomically. The same command skips
finished trainings. Models are removed once they are scored.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cascade_srn import Document, write_documents
from cascade_srn.errors import CascadeError, ConfigError, TrainingError
from cascade_srn.formats.files import replacing
from cascade_srn.formats.registry import write_schema
from cascade_srn.runs.children import run_parallel
from cascade_srn.storage.lock import FolderLock
from cascade_srn.training.corpus import read_corpus
from cascade_srn.training.recipe import Recipe, load_recipe
from cascade_srn.training.run_folder import SPLITS, TASKS, RunFolder

ALL = "all"
SIZES = ("50", "100", "200", "500", "1000", ALL)
RESULTS = "results.jsonl"
# Sentences that a training sees in all epochs together, and the range of epochs.
SEEN_SENTENCES, MIN_EPOCHS, MAX_EPOCHS = 4000, 10, 60

Result = dict[str, Any]


@dataclass(frozen=True)
class Training:
    """One point of a curve: where the weights come from, sentences to learn from, and the seed."""

    start: str
    size: str
    seed: int

    @property
    def name(self) -> str:
        """Name of the files of this training."""
        start = re.sub(r"[^\w.]+", "-", self.start)
        return f"{start}-{self.size}-{self.seed}"


def plan(starts: Iterable[str], sizes: Sequence[str], *, small: int, seeds: int, large_seeds: int) -> list[Training]:
    """Return the trainings in order: one seed of the small sizes, their other seeds, then the large sizes."""
    names = list(starts)
    small_sizes = [size for size in sizes if size != ALL and int(size) <= small]
    large_sizes = [size for size in sizes if size not in small_sizes]
    groups = [(small_sizes, [seed]) for seed in range(seeds)] + [(large_sizes, [seed]) for seed in range(large_seeds)]
    return [Training(start, size, seed) for group, each in groups for seed in each for size in group for start in names]


def sample(documents: Sequence[Document], size: str, seed: int) -> list[Document]:
    """Return shuffled documents whose number of sentences is the closest to the size."""
    shuffled = list(documents)
    random.Random(seed).shuffle(shuffled)
    if size == ALL:
        return shuffled
    n_sentences, best, n_documents = 0, int(size), 0
    for number, document in enumerate(shuffled, 1):
        n_sentences += len(document.sentences)
        if (distance := abs(n_sentences - int(size))) < best:
            best, n_documents = distance, number
    return shuffled[: max(1, n_documents)]


def count_epochs(n_sentences: int) -> int:
    """Return the number of epochs for a sample."""
    return max(MIN_EPOCHS, min(MAX_EPOCHS, round(SEEN_SENTENCES / n_sentences)))


class Curve:
    """Trainings of a learning curve, in one folder."""

    def __init__(self, folder: Path, recipe_path: Path, overrides: Sequence[str], starts: dict[str, list[str]]) -> None:
        self.folder, self.recipe_path, self.overrides, self.starts = folder, recipe_path, overrides, starts
        # Pairs of types that are learned from all documents would tell a small sample what it does not contain.
        recipe = load_recipe(recipe_path, [*overrides, "data.min_pair_count=0"])
        if not isinstance(recipe.data.dev, str):
            raise ConfigError("the recipe has no file for data.dev, on which thresholds are chosen", "Set data.dev")
        self.documents, self._schema = self._read(recipe)

    def _read(self, recipe: Recipe) -> tuple[list[Document], Path]:
        corpus = read_corpus(recipe.data)
        path = self.folder / "schema.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_schema(corpus.schema, path)
        return list(corpus.train), path

    def run(self, trainings: Sequence[Training], n_jobs: int, device: str) -> None:
        """Train what is not finished, and add a line for each training.

        Raises:
            TrainingError: If a training failed. The others are finished first.
        """
        finished = {(result["start"], result["size"], result["seed"]) for result in read_results(self.folder)}
        waiting = {t.name: t for t in trainings if (t.start, t.size, t.seed) not in finished}
        samples = {(t.size, t.seed): self._write_sample(t) for t in waiting.values()}
        commands = {t.name: self._command(t, samples[t.size, t.seed], device) for t in waiting.values()}
        failed = []
        for ended in run_parallel(commands, n_jobs, self.folder / "logs"):
            training = waiting[ended.name]
            if ended.code:
                failed.append(ended)
                print(f"{ended.name}: exit code {ended.code}, {ended.last_words}", file=sys.stderr, flush=True)
                continue
            self._record(training, samples[training.size, training.seed])
            print(f"{ended.name}: {ended.seconds:.0f} s", flush=True)
        if failed:
            raise TrainingError(
                f"{len(failed)} of {len(commands)} trainings failed, {failed[0].name} first ({failed[0].last_words})",
                "Fix the cause and run the same command again",
            )

    def _write_sample(self, training: Training) -> dict[str, Any]:
        """Write the sample of a training. Return its path and counts."""
        documents = sample(self.documents, training.size, training.seed)
        path = self.folder / "samples" / f"{training.size}-{training.seed}.jsonl"
        path.parent.mkdir(exist_ok=True)
        write_documents(documents, path, format="jsonl")
        n_sentences = sum(len(document.sentences) for document in documents)
        return {
            "path": path,
            "documents": len(documents),
            "sentences": n_sentences,
            "entities": sum(len(document.entities) for document in documents),
            "relations": sum(len(document.relations) for document in documents),
            "epochs": count_epochs(n_sentences),
        }

    def _command(self, training: Training, sampled: dict[str, Any], device: str) -> list[str]:
        settings = {
            "data.train": sampled["path"],
            "data.format": "null",
            "data.schema": self._schema,
            "data.symmetric": "[]",
            "training.epochs": sampled["epochs"],
            "training.evaluate_every": "null",
            "training.seed": training.seed,
            "training.save_every": 0,
            "training.trackers": "[]",
            "output": self._output(training),
        }
        changed = [f"{key}={value}" for key, value in settings.items()]
        given = [*self.overrides, *self.starts[training.start], *changed]
        return ["train", str(self.recipe_path), *given, "--overwrite", "--device", device]

    def _output(self, training: Training) -> Path:
        return self.folder / "runs" / training.name

    def _record(self, training: Training, sampled: dict[str, Any]) -> None:
        output = self._output(training)
        summary = RunFolder(output).read_summary()
        result: Result = {"start": training.start, "size": training.size, "seed": training.seed}
        result |= {key: value for key, value in sampled.items() if key != "path"}
        for split in SPLITS:
            if split in summary:
                result[split] = {task: summary[split][task]["micro"]["f1"] for task in TASKS}
        add_result(self.folder, result | {"seconds": round(summary["seconds"], 1)})
        shutil.rmtree(output)


def read_results(folder: Path) -> list[Result]:
    """Return the results of a folder, in the order in which the trainings ended."""
    path = folder / RESULTS
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def add_result(folder: Path, result: Result) -> None:
    """Add a line to the results. Other lines are kept, whenever the process is killed."""
    lines = [json.dumps(each, ensure_ascii=False) + "\n" for each in [*read_results(folder), result]]
    with replacing(folder / RESULTS) as handle:
        handle.write("".join(lines).encode())


@dataclass(frozen=True)
class Point:
    """Scores in percent of the trainings that differ in the seed only."""

    start: str
    size: str
    sentences: float
    scores: dict[str, list[float]]

    @property
    def n_seeds(self) -> int:
        """Number of trainings."""
        return len(next(iter(self.scores.values())))

    def show(self, task: str) -> str:
        """Return mean and sample standard deviation."""
        values = self.scores[task]
        spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
        return f"{statistics.mean(values):.1f}{spread}"


def summarise(results: Sequence[Result], split: str) -> list[Point]:
    """Group results by size and start."""
    scored = [result for result in results if split in result]
    if not scored:
        raise ConfigError(f"there is no result on {split}", "Train first, with the split in the recipe")
    sizes = sorted({r["size"] for r in scored}, key=lambda size: float("inf") if size == ALL else int(size))
    starts = dict.fromkeys(r["start"] for r in scored)
    groups = {
        (start, size): [r for r in scored if (r["start"], r["size"]) == (start, size)]
        for size in sizes
        for start in starts
    }
    return [
        Point(
            start,
            size,
            statistics.mean(r["sentences"] for r in group),
            {task: [100 * r[split][task] for r in group] for task in TASKS},
        )
        for (start, size), group in groups.items()
        if group
    ]


def table(points: Sequence[Point]) -> str:
    """Return a Markdown table."""
    rows = [("sentences", "start", "seeds", *TASKS.values()), ("---:", "---", "---:", *["---:"] * len(TASKS))]
    for p in points:
        sentences = f"{p.sentences:,.0f} ({ALL})" if p.size == ALL else f"{int(p.size):,}"
        rows.append((sentences, p.start, str(p.n_seeds), *(p.show(task) for task in TASKS)))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def plot(points: Sequence[Point], path: Path, split: str) -> None:
    """Draw NER and strict RE over the number of sentences, with the standard deviation as a bar."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, task in zip(panels, ("ner", "re_strict"), strict=True):
        for start, marker in zip(dict.fromkeys(p.start for p in points), "osv^D", strict=False):
            chosen = [p for p in points if p.start == start]
            spreads = [statistics.stdev(p.scores[task]) if p.n_seeds > 1 else 0 for p in chosen]
            means = [statistics.mean(p.scores[task]) for p in chosen]
            axes.errorbar([p.sentences for p in chosen], means, spreads, marker=marker, capsize=3, label=start)
        axes.set(title=f"{TASKS[task]}, F1 on {split}", xlabel="training sentences", xscale="log", ylim=(0, None))
        ticks = {p.size: p.sentences for p in points}
        axes.set_xticks(list(ticks.values()), [f"{value:.0f}" for value in ticks.values()])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    panels[0].legend()
    # A fixed salt and no date: the same results give the same file.
    with mpl.rc_context({"svg.hashsalt": "cascade-srn", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _starts(options: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the settings of each start. They replace the start of the recipe."""
    kinds = (
        ("model.encoder.name", "model.start=null", options.encoder),
        ("model.start", "model.encoder=null", options.model),
    )
    for key, other, given in kinds:
        for pair in given:
            name, separator, path = pair.partition("=")
            if not (name and separator and path):
                raise ConfigError(f"the start {pair!r} is not of the form NAME=PATH", option=key)
            yield name, [other, f"{key}={path}"]


def _positive(value: str) -> int:
    if not value.isdecimal() or not int(value):
        raise argparse.ArgumentTypeError(f"{value!r} is not a positive number")
    return int(value)


def _size(value: str) -> str:
    return value if value == ALL else str(_positive(value))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Train on growing samples of a corpus, and print or draw the scores.",
        usage="%(prog)s [options] RECIPE FOLDER [KEY=VALUE …]\n       %(prog)s --table|--plot FILE [options] FOLDER",
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="recipe, folder of the results, and settings")
    parser.add_argument("--encoder", action="append", default=[], metavar="NAME=ENCODER", help="start: an encoder")
    parser.add_argument("--model", action="append", default=[], metavar="NAME=MODEL", help="start: a trained model")
    parser.add_argument(
        "--sizes", nargs="+", type=_size, default=SIZES, metavar="N", help="training sentences, or 'all'"
    )
    parser.add_argument(
        "--small", type=_positive, default=200, help="largest size that is trained with --seeds (%(default)s)"
    )
    parser.add_argument("--seeds", type=_positive, default=5, help="seeds of the small sizes (%(default)s)")
    parser.add_argument("--large-seeds", type=_positive, default=1, help="seeds of the large sizes (%(default)s)")
    parser.add_argument("--parallel", type=_positive, default=1, help="trainings at a time (%(default)s)")
    parser.add_argument("--device", default="auto", help="device of the trainings (%(default)s)")
    parser.add_argument("--split", choices=SPLITS, default="dev", help="scores of --table and --plot (%(default)s)")
    parser.add_argument("--table", action="store_true", help="print a table of the results")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the results to an SVG or PNG file")
    return parser.parse_intermixed_args()


def _show(options: argparse.Namespace) -> None:
    points = summarise(read_results(Path(options.paths[-1])), options.split)
    if options.table:
        print(table(points))
    if options.plot:
        plot(points, options.plot, options.split)


def _train(options: argparse.Namespace) -> None:
    if len(options.paths) < 2:
        raise ConfigError("a recipe and a folder are needed, and there is one path only")
    recipe, folder, *overrides = options.paths
    starts = dict(_starts(options))
    if not starts:
        raise ConfigError("there is no start", "Give at least one encoder or model")
    output = Path(folder)
    output.mkdir(parents=True, exist_ok=True)
    with FolderLock(output):
        trainings = plan(
            starts, options.sizes, small=options.small, seeds=options.seeds, large_seeds=options.large_seeds
        )
        Curve(output, Path(recipe), overrides, starts).run(trainings, options.parallel, options.device)


def main() -> None:
    """Train, or show the results."""
    options = _parse()
    try:
        (_show if options.table or options.plot else _train)(options)
    except CascadeError as error:
        raise SystemExit(f"learning_curve.py: {error}") from error


if __name__ == "__main__":
    main()
