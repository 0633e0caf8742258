"""Options of the benchmarks. This module does not import torch, so that ``--help`` is fast."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import ClassVar

from cascade_srn.config import PRECISIONS, PRESETS, Settings, preset_axes, require_choice, require_range
from cascade_srn.errors import ConfigError
from cascade_srn.storage.bundled import DEFAULT

# All training sentences, as a size of a sample.
ALL = "all"


@dataclass(frozen=True)
class BenchmarkOptions(Settings):
    """Options of a benchmark, which have the same bounds and choices in all of them."""

    # Smallest values of numbers. All others are at least 1.
    LEAST: ClassVar[dict[str, float]] = {"warmup": 0, "train_steps": 0, "n_tasks": 2, "seconds": 0.1}
    PRECISIONS: ClassVar[tuple[str, ...]] = PRECISIONS
    NOT_EMPTY: ClassVar[tuple[str, ...]] = ("presets", "clients", "models", "precisions", "splits")

    def __post_init__(self) -> None:
        given = {setting.name: getattr(self, setting.name) for setting in fields(self)}
        for name, value in given.items():
            if name in self.NOT_EMPTY and not value:
                raise ConfigError(f"{name} is empty", "Give one or more", option=name)
            for what, number in _numbers(name, value):
                require_range(what, number, self.LEAST.get(name, 1), option=name)
        if "precision" in given:
            require_choice("precision", given["precision"], self.PRECISIONS, option="precision")
        for precision in given.get("precisions", ()):
            require_choice("precision", precision, PRECISIONS[1:], option="precisions")
        for preset in given.get("presets", [given["preset"]] if "preset" in given else ()):
            preset_axes(preset)
        if given.get("model") is not None and given.get("encoder") is not None:
            raise ConfigError("both a saved model and an encoder are given", "Give one of the two")


def _numbers(name: str, value: object) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a setting, alone or in lists, with their names for messages."""
    if isinstance(value, tuple):
        yield from ((f"one of the {name}", number) for one in value for _, number in _numbers(name, one))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, value


@dataclass(frozen=True)
class SrnOptions(BenchmarkOptions):
    """Options of the comparison of an SRN cell with an LSTM.

    Attributes:
        shapes: Batches: sentences x words.
        input_width: Width of a word vector.
        hidden_width: Width of a hidden state.
        n_tasks: Number of tasks of the SRN.
    """

    shapes: tuple[tuple[int, int], ...] = ((8, 40), (32, 40), (128, 40))
    input_width: int = 768
    hidden_width: int = 128
    n_tasks: int = 3
    repeats: int = 20
    warmup: int = 3
    device: str = "auto"


@dataclass(frozen=True)
class ExtractOptions(BenchmarkOptions):
    """Options of the extraction benchmark.

    Attributes:
        train_steps: Train each model for about this many steps first, so that it finds entities.
        given_entities: Run turns 2 and 3 on gold entities, all of them as subjects.
        batch_sentences: Sentences per batch, instead of ``batch_words``. 0: off.
        latency_sentences: Sentences to process one at a time for the latency.
    """

    model: str | None = None
    encoder: str | None = None
    data: str | None = None
    presets: tuple[str, ...] = tuple(PRESETS)
    sentences: int = 500
    train_steps: int = 0
    given_entities: bool = False
    batch_words: int = 4096
    batch_sentences: int = 0
    latency_sentences: int = 100
    precision: str = "auto"
    repeats: int = 5
    warmup: int = 1
    device: str = "auto"

    LEAST = BenchmarkOptions.LEAST | {"batch_sentences": 0}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model is not None and self.train_steps:
            raise ConfigError("both a saved model and train_steps are given", "Give one of the two")
        if self.train_steps and self.given_entities:
            raise ConfigError(
                "both train_steps and given_entities are given",
                "Train briefly to measure predicted entities, or use given entities, which need no training",
            )


@dataclass(frozen=True)
class PrecisionOptions(BenchmarkOptions):
    """Options of the simulation of promised precision.

    Attributes:
        data: Annotated documents that the model was not trained on: one or more files.
        splits: Number of random halves.
        relations: Levels to promise for relations.
        entities: Levels to promise for entities.
        seed: Seed of the halves.
    """

    data: tuple[str, ...] = ()
    model: str = DEFAULT
    splits: int = 1000
    relations: tuple[float, ...] = (0.5, 0.6, 0.7)
    entities: tuple[float, ...] = (0.7, 0.8, 0.9)
    seed: int = 0

    LEAST = BenchmarkOptions.LEAST | {"relations": 0, "entities": 0, "seed": 0}
    NOT_EMPTY = (*BenchmarkOptions.NOT_EMPTY, "data")


@dataclass(frozen=True)
class TrainOptions(BenchmarkOptions):
    """Options of the training benchmark.

    Attributes:
        batch_sizes: Sentences per batch.
        epochs: Measured epochs, after one warm-up epoch.
        precision: float32, tf32 or bf16.
    """

    encoder: str | None = None
    data: str | None = None
    presets: tuple[str, ...] = ("swift", "early")
    batch_sizes: tuple[int, ...] = (8,)
    sentences: int = 500
    epochs: int = 3
    precision: str = "float32"
    device: str = "auto"

    PRECISIONS = ("float32", "tf32", "bf16")


@dataclass(frozen=True)
class GrowthOptions(BenchmarkOptions):
    """Options of the benchmark on how the cost grows with sentence length, subjects and corpus size.

    Attributes:
        preset: Fusion preset.
        lengths: Words per sentence.
        subjects: Subjects per sentence.
        factors: How many times the data is repeated.
        batch_sentences: Sentences per batch for lengths and subjects.
        subject_words: Words per sentence for subjects.
    """

    model: str | None = None
    encoder: str | None = None
    data: str | None = None
    preset: str = "swift"
    lengths: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 512)
    subjects: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    factors: tuple[int, ...] = (1, 10, 100)
    batch_sentences: int = 8
    subject_words: int = 128
    sentences: int = 100
    batch_words: int = 1024
    precision: str = "auto"
    repeats: int = 5
    warmup: int = 1
    device: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.subjects and max(self.subjects) > self.subject_words:
            raise ConfigError(
                f"subjects is {max(self.subjects)}, but a sentence has {self.subject_words} words",
                "Raise subject_words or lower subjects",
            )


@dataclass(frozen=True)
class ServeOptions(BenchmarkOptions):
    """Options of the service benchmark.

    Attributes:
        clients: Numbers of parallel clients, one measurement each. A client sends its next request as soon as it has
            an answer.
        seconds: How long the clients of each measurement send requests.
        single: Requests of a single client.
        workers: Number of worker processes of the service.
    """

    model: str | None = None
    data: str | None = None
    sentences: int = 500
    clients: tuple[int, ...] = (1, 16, 256, 1000)
    seconds: float = 30.0
    single: int = 200
    workers: int = 1
    batch_words: int = 1024
    precision: str = "auto"
    device: str = "auto"


@dataclass(frozen=True)
class RuntimesOptions(BenchmarkOptions):
    """Options of the comparison of torch with ONNX Runtime.

    Attributes:
        models: Models: folders, also exported ones, names or hub ids.
        precisions: Precisions in torch, one row each. ONNX Runtime has that of the model.
        latency_sentences: Sentences to process one at a time for the latency.
        starts: New processes in which the first answer is measured, for each row.
    """

    models: tuple[str, ...] = (DEFAULT,)
    precisions: tuple[str, ...] = ("float32",)
    data: str | None = None
    sentences: int = 200
    batch_words: int = 4096
    latency_sentences: int = 100
    starts: int = 3
    repeats: int = 5
    warmup: int = 1


@dataclass(frozen=True)
class CorpusOptions(BenchmarkOptions):
    """Options of the corpus benchmark.

    Attributes:
        data: Texts: JSON lines, Parquet, CSV or text files. Default: the texts of the example corpus.
        field: Field or column that contains the text.
        documents: Number of documents to use, from the beginning of the data.
        splits: Workers x threads to compare. The first has to have one worker.
        split_workers: Numbers of processes that split texts ahead of Extractor.stream, to compare with none.
        factors: How many times the data is repeated for the memory.
        shard_documents: Maximum number of documents in a shard.
        repeats: Measured runs; the median is reported.
    """

    model: str | None = None
    data: str | None = None
    field: str = "text"
    documents: int = 2000
    splits: tuple[str, ...] = ("1x2", "2x1")
    split_workers: tuple[int, ...] = ()
    factors: tuple[int, ...] = (1, 10)
    shard_documents: int = 200
    batch_words: int = 4096
    precision: str = "auto"
    repeats: int = 3
    device: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pairs[0][0] != 1:
            raise ConfigError(
                f"splits is {','.join(self.splits)!r}", "Give one worker first, such as 1x2,2x1", option="splits"
            )

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Workers and threads of each split."""
        pairs = [split.split("x") for split in self.splits]
        if not all(len(pair) == 2 and all(part.isdecimal() and int(part) for part in pair) for pair in pairs):
            raise ConfigError(
                f"splits is {','.join(self.splits)!r}", "Give workers x threads: 1x2,2x1", option="splits"
            )
        return tuple((int(workers), int(threads)) for workers, threads in pairs)


@dataclass(frozen=True)
class FewShotOptions(BenchmarkOptions):
    """Options of the few-shot benchmark.

    Attributes:
        data: Corpora: folders with files such as train.json, dev.json and test.json or NAME-train.json …, or paths such
            as FOLDER/NAME for one corpus of a folder.
        starts: Trained models to start from: folders, names or hub ids.
        encoders: Pretrained encoders to start from: folders or hub ids.
        sizes: Numbers of training sentences, or all.
        seeds: Trainings of each size. Each has another sample.
        processes: Trainings at a time.
        precision: float32, tf32 or bf16.
    """

    data: tuple[str, ...] = ()
    starts: tuple[str, ...] = (DEFAULT,)
    encoders: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ("20", "50", "100")
    seeds: int = 5
    processes: int = 1
    precision: str = "float32"
    device: str = "auto"

    PRECISIONS = ("float32", "tf32", "bf16")
    NOT_EMPTY = ("data", "sizes")

    def __post_init__(self) -> None:
        super().__post_init__()
        for size in self.sizes:
            if size != ALL and not (size.isdecimal() and int(size)):
                raise ConfigError(
                    f"one of the sizes is {size!r}", f"Give numbers of sentences, or {ALL}", option="sizes"
                )
        if not self.starts and not self.encoders:
            raise ConfigError("there is no start", "Give trained models or encoders", option="starts")


@dataclass(frozen=True)
class TeachOptions(FewShotOptions):
    """Options of the simulation of a teacher.

    Attributes:
        sizes: Numbers of sentences that the teacher labels, or all.
        seeds: Trainings of each size. Each has another sample and other errors.
        teachers: Levels of the teacher in percent: precision/recall of entities + precision/recall of relations.
        checked: Share of the sentences that a person checks, the most doubtful ones. 0: none.
        repeated: Share of the decisions of the teacher that a second answer repeats, errors included.
        epochs: Passes over the sentences. 0: the rule of annotation projects.
    """

    sizes: tuple[str, ...] = ("50", "100", "200", "500")
    seeds: int = 1
    teachers: tuple[str, ...] = ("90/85+70/60", "80/75+50/40", "65/60+30/25", "45/44+12/9")
    checked: float = 0.1
    repeated: float = 0.7
    epochs: int = 0

    LEAST = FewShotOptions.LEAST | {"checked": 0, "repeated": 0, "epochs": 0}

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("checked", "repeated"):
            require_range(name, getattr(self, name), 0, 1, option=name)
