"""Train on samples of corpora in processes of their own, keep their scores in a JSON file, and go on from it."""

from __future__ import annotations

import json
import random
import re
import shutil
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from cascade_srn.config import FRESH
from cascade_srn.encoder.pretrained import encoder_width
from cascade_srn.errors import DataError, TrainingError
from cascade_srn.formats.registry import write_documents, write_schema
from cascade_srn.lab.benchmarks.measuring import RESULTS, BenchmarkRun, Result, ResultColumn, ResultRow
from cascade_srn.lab.benchmarks.options import ALL, FewShotOptions
from cascade_srn.model.start import Start
from cascade_srn.runs.children import Ended, run_parallel
from cascade_srn.runs.device import find_device
from cascade_srn.training.corpus import Corpus, read_corpus
from cascade_srn.training.defaults import SMALL_WIDTH, default_training
from cascade_srn.training.recipe import DataSettings, Recipe
from cascade_srn.training.run_folder import SPLITS, TASKS, RunFolder
from cascade_srn.types import Document

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OptionsT = TypeVar("OptionsT", bound=FewShotOptions)

# Labels of people, unchanged.
GOLD = "gold"
_TRAIN_FILE = re.compile(r"(.*?)([-_.]?)train(\.[^/]+)")


class Training(NamedTuple):
    """One training: its corpus and start, number of sentences, labels, and seed of the sample and of training."""

    corpus: str
    start: str
    size: str
    seed: int
    labels: str = GOLD

    @property
    def name(self) -> str:
        """Name of its files."""
        return re.sub(r"[^\w.]+", "-", "-".join(map(str, self)))


@dataclass(frozen=True)
class StartingPoint:
    """The section ``model`` of a recipe, and the width of the encoder."""

    model: dict[str, Any]
    width: int

    @property
    def is_fresh(self) -> bool:
        """Whether the weights of the encoder are random."""
        return bool(self.model == {"encoder": {"name": FRESH}})


def find_corpora(path: str) -> dict[str, DataSettings]:
    """Return the corpora of a folder, or of a path to which ``-train`` and an ending are added, by name.

    Files are called ``train``, ``dev`` and ``test``, with any ending, or have such a name after that of the corpus.

    Raises:
        DataError: If there is no file to train on, or no dev beside it.
    """
    folder, prefix = (Path(path), "") if Path(path).is_dir() else (Path(path).parent, Path(path).name)
    files = sorted(member.name for member in folder.iterdir()) if folder.is_dir() else []
    found = {}
    for file in files:
        match = _TRAIN_FILE.fullmatch(file)
        if match is None or (prefix and match[1] != prefix):
            continue
        paths = {split: folder / f"{match[1]}{match[2]}{split}{match[3]}" for split in ("train", *SPLITS)}
        if not paths["dev"].exists():
            raise DataError(f"{str(paths['train'])!r} has no {paths['dev'].name!r} beside it", "Give documents for dev")
        test = str(paths["test"]) if paths["test"].exists() else None
        # Pairs of types of all documents would tell a small sample what it does not contain.
        data = DataSettings(str(paths["train"]), str(paths["dev"]), test, min_pair_count=0)
        found[match[1] or folder.resolve().name] = data
    if not found:
        raise DataError(f"{path!r} has no file to train on, such as train.json", "Give train, dev and test files")
    return found


def count_sentences(documents: Sequence[Document]) -> int:
    """Return the number of sentences of documents."""
    return sum(len(document.sentences) for document in documents)


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


class Trainings(Generic[OptionsT]):
    """The trainings of a benchmark, with their files in a temporary folder.

    Args:
        options: Options of the benchmark.
        run: The benchmark in progress.
        folder: An empty folder.
        path: JSON file, perhaps of an earlier call. Its trainings with the same settings are not repeated.
    """

    NAME: ClassVar[str]
    NOTES: ClassVar[tuple[str, ...]]
    COLUMNS: ClassVar[tuple[ResultColumn, ...]]
    # What a row of the result has in common.
    GROUPED: ClassVar[tuple[str, ...]] = ("corpus", "size", "start")

    def __init__(self, options: OptionsT, run: BenchmarkRun | None, folder: Path, path: Path | None) -> None:
        self.options, self.folder = options, folder
        self.run = BenchmarkRun() if run is None else run
        self.path = self.default_path(options) if path is None else path
        self.device = find_device(options.device)
        self.starts = {_short(name): StartingPoint({"start": name}, Start(name).width) for name in options.starts}
        for name in options.encoders:
            width = encoder_width(name) or SMALL_WIDTH
            self.starts[_short(name)] = StartingPoint({"encoder": {"name": name}}, width)
        self.corpora: dict[str, tuple[DataSettings, Corpus]] = {}
        for given in options.data:
            for name, settings in find_corpora(given).items():
                self.corpora[name] = settings, read_corpus(settings)
                write_schema(self.corpora[name][1].schema, folder / f"{name}-schema.json")
        self.done = self._read_stored()

    @classmethod
    def run_all(cls, options: OptionsT, run: BenchmarkRun | None = None, path: Path | None = None) -> Result:
        """Train all combinations that ``path``, a JSON file of an earlier call, does not have with the same settings.

        Raises:
            TrainingError: If a training failed. The others are finished first.
        """
        with tempfile.TemporaryDirectory(prefix=f"{cls.NAME}-") as folder:
            return cls(options, run, Path(folder), path).measure()

    @classmethod
    def default_path(cls, options: FewShotOptions) -> Path:
        """Return the default path of the JSON file."""
        return RESULTS / f"{cls.NAME}-{find_device(options.device).type}.json"

    def planned(self) -> Iterator[Training]:
        """Yield all trainings, in the order in which they are started."""
        for seed in range(self.options.seeds):
            for size in self.options.sizes:
                for corpus in self.corpora:
                    yield from (Training(corpus, start, size, seed) for start in self.starts)

    def label(self, training: Training, documents: list[Document]) -> tuple[list[Document], ResultRow]:
        """Return the sample of a training with the labels to learn from, and what is stored about them."""
        return documents, {}

    def sections(self, training: Training, documents: Sequence[Document]) -> dict[str, dict[str, Any]]:
        """Return sections of the recipe that depend on the number of documents to learn from."""
        settings, corpus = self.corpora[training.corpus]
        start = self.starts[training.start]
        chosen = default_training(
            count_sentences(documents),
            width=start.width,
            n_dev=count_sentences(corpus.dev),
            is_gpu=self.device.type == "cuda",
            is_fresh=start.is_fresh,
        )
        return {"model": {}, "data": {"dev": settings.dev, "test": settings.test}, "training": chosen}

    def measure(self) -> Result:
        """Do all trainings that the JSON file does not have. It is written after each of them."""
        commands, described = {}, {}
        for training in self.planned():
            recipe, row = self._prepare(training)
            stored = self.done.get(training, {})
            if all(stored.get(key) == value for key, value in row.items()):
                continue
            file = self.folder / f"{training.name}.yaml"
            file.write_text(recipe.to_yaml(), encoding="utf-8")
            described[training.name] = training, row
            commands[training.name] = ["train", str(file), "--no-onnx", "--device", self.options.device]
        failed: list[Ended] = []
        self._collect()
        with self.run.collecting():
            self.run.step("training", 1, len(commands))
            ended_runs = run_parallel(commands, self.options.processes, self.folder / "logs")
            for n_ended, ended in enumerate(ended_runs, 1):
                if ended.code:
                    failed.append(ended)
                else:
                    training, row = described[ended.name]
                    self.done[training] = row | self.scores(training)
                    self._collect()
                    replace(self._result(), partial=n_ended < len(commands)).save(self.path)
                self.run.step("training", n_ended + 1, len(commands), ended.name)
        if failed:
            raise TrainingError(
                f"{len(failed)} of {len(commands)} trainings failed, {failed[0].name} first ({failed[0].last_words})",
                "Fix the cause and run the same command again",
            )
        return self._result()

    def _read_stored(self) -> dict[Training, ResultRow]:
        """Return the trainings of the JSON file."""
        if not self.path.is_file():
            return {}
        try:
            rows = json.loads(self.path.read_text(encoding="utf-8"))["rows"]
            return {
                Training(**{key: row[key] for key in self.GROUPED}, seed=found["seed"]): found
                for row in rows
                for found in row["trainings"]
            }
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{str(self.path)!r} is not a result of this benchmark", "Choose another file", option="output"
            ) from error

    def _prepare(self, training: Training) -> tuple[Recipe, ResultRow]:
        """Write the sample of a training. Return its recipe, and what is stored beside its scores."""
        _, corpus = self.corpora[training.corpus]
        documents, described = self.label(training, sample(corpus.train, training.size, training.seed))
        path = self.folder / f"{training.name}.jsonl"
        write_documents(documents, path, "jsonl")
        sections = self.sections(training, documents)
        chosen = sections["training"] | {"seed": training.seed, "precision": self.options.precision}
        schema = str(self.folder / f"{training.corpus}-schema.json")
        values = {
            "model": self.starts[training.start].model | sections["model"],
            "data": {"train": str(path), "schema": schema} | sections["data"],
            "training": chosen | {"save_every": 0, "trackers": []},
            "output": str(self.folder / training.name),
        }
        row = {
            "seed": training.seed,
            "documents": len(documents),
            "sentences": count_sentences(documents),
            "entities": sum(len(document.entities) for document in documents),
            "relations": sum(len(document.relations) for document in documents),
            "training": chosen,
        }
        return Recipe.from_dict(values), row | described

    def scores(self, training: Training) -> ResultRow:
        """Return the F1 scores of a finished training by split, and remove its model."""
        folder = RunFolder(self.folder / training.name)
        summary = folder.read_summary()
        shutil.rmtree(folder.path)
        scores = {
            split: {task: summary[split][task]["micro"]["f1"] for task in TASKS} for split in SPLITS if split in summary
        }
        return {**scores, "seconds": summary["seconds"]}

    def _collect(self) -> None:
        """Group the finished trainings."""
        groups: dict[tuple[str, ...], list[ResultRow]] = {}
        for training in sorted(self.done, key=self.order):
            key = tuple(getattr(training, name) for name in self.GROUPED)
            groups.setdefault(key, []).append(self.done[training])
        self.run.rows[:] = [
            {**dict(zip(self.GROUPED, key, strict=True)), "trainings": group} for key, group in groups.items()
        ]

    def order(self, training: Training) -> tuple[Any, ...]:
        """Return the key by which trainings are sorted in the result."""
        size = float("inf") if training.size == ALL else int(training.size)
        return training.corpus, size, training.start, training.seed

    def _result(self) -> Result:
        data = {
            name: {split: Path(path).name for split, path in settings.splits.items()}
            for name, (settings, _) in self.corpora.items()
        }
        precision = self.options.precision
        return self.run.result(
            self.NAME, self.device, self.options, self.COLUMNS, self.NOTES, precision=precision, data=data
        )


def _short(name: str) -> str:
    """Return the name of a start: that of its folder, or its hub id."""
    return Path(name).resolve().name if Path(name).is_dir() else name


def scores_of(row: ResultRow, task: str) -> tuple[str, list[float]]:
    """Return the split that a row is scored on, test if there is one, and the scores of all seeds in percent."""
    split = "test" if all("test" in training for training in row["trainings"]) else "dev"
    return split, [100 * training[split][task] for training in row["trainings"]]


def score_column(task: str, heading: str = "", split: str = "") -> ResultColumn:
    """Return a column of the mean F1 and its deviation over the seeds, by default of the split to score on."""

    def show(row: ResultRow) -> str:
        scores = [100 * t[split][task] for t in row["trainings"] if split in t] if split else scores_of(row, task)[1]
        spread = f" ± {statistics.stdev(scores):.1f}" if len(scores) > 1 else ""
        return f"{statistics.mean(scores):.1f}{spread}" if scores else "–"

    return ResultColumn(heading or TASKS[task], show)


def mean_sentences(row: ResultRow) -> float:
    """Return the mean number of sentences of the samples of a row."""
    return float(statistics.mean(training["sentences"] for training in row["trainings"]))


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a picture. The same results give the same file."""
    import matplotlib as mpl

    path.parent.mkdir(parents=True, exist_ok=True)
    # A fixed salt and no date.
    with mpl.rc_context({"svg.hashsalt": "cascade-srn", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    return path
