"""Options of the benchmarks. This module does not import torch, so that ``--help`` is fast."""

from dataclasses import dataclass

from cascade_srn.config import PRECISIONS, PRESETS, Settings, preset_axes, require_choice, require_range
from cascade_srn.errors import ConfigError
from cascade_srn.storage.bundled import DEFAULT


@dataclass(frozen=True)
class SrnOptions(Settings):
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

    def __post_init__(self) -> None:
        for batch, length in self.shapes:
            require_range("a shape's number of sentences", batch, 1)
            require_range("a shape's number of words", length, 1)
        _require_positive(self, "input_width", "hidden_width", "repeats")
        require_range("n_tasks", self.n_tasks, 2, option="n_tasks")
        require_range("warmup", self.warmup, 0, option="warmup")


@dataclass(frozen=True)
class ExtractOptions(Settings):
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

    def __post_init__(self) -> None:
        _require_positive(self, "sentences", "batch_words", "latency_sentences", "repeats")
        for name in ("train_steps", "batch_sentences", "warmup"):
            require_range(name, getattr(self, name), 0, option=name)
        require_choice("precision", self.precision, PRECISIONS, option="precision")
        _require_presets(self.presets)
        if self.model is not None:
            for name, given in (("encoder", self.encoder is not None), ("train_steps", self.train_steps > 0)):
                if given:
                    raise ConfigError(f"both a saved model and {name} are given", "Give one of the two")
        if self.train_steps and self.given_entities:
            raise ConfigError(
                "both train_steps and given_entities are given",
                "Train briefly to measure predicted entities, or use given entities, which need no training",
            )


@dataclass(frozen=True)
class TrainOptions(Settings):
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

    def __post_init__(self) -> None:
        _require_positive(self, "sentences", "epochs")
        for size in self.batch_sizes:
            require_range("a batch size", size, 1)
        require_choice("precision", self.precision, ("float32", "tf32", "bf16"), option="precision")
        _require_presets(self.presets)


@dataclass(frozen=True)
class GrowthOptions(Settings):
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
        _require_positive(self, "batch_sentences", "subject_words", "sentences", "batch_words", "repeats")
        require_range("warmup", self.warmup, 0, option="warmup")
        for name in ("lengths", "subjects", "factors"):
            for value in getattr(self, name):
                require_range(f"one of the {name}", value, 1)
        if self.subjects and max(self.subjects) > self.subject_words:
            raise ConfigError(
                f"subjects is {max(self.subjects)}, but a sentence has {self.subject_words} words",
                "Raise subject_words or lower subjects",
            )
        require_choice("precision", self.precision, PRECISIONS, option="precision")
        _require_presets((self.preset,))
        if self.model is not None and self.encoder is not None:
            raise ConfigError("both a saved model and an encoder are given", "Give one of the two")


def _require_positive(options: Settings, *names: str) -> None:
    for name in names:
        require_range(name, getattr(options, name), 1, option=name)


def _require_presets(names: tuple[str, ...]) -> None:
    if not names:
        raise ConfigError("presets is empty", f"Give one or more of {', '.join(PRESETS)}", option="presets")
    for name in names:
        preset_axes(name)


@dataclass(frozen=True)
class ServeOptions(Settings):
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

    def __post_init__(self) -> None:
        _require_positive(self, "sentences", "single", "workers", "batch_words")
        if not self.clients:
            raise ConfigError("clients is empty", "Give one or more numbers such as 1,16", option="clients")
        for n_clients in self.clients:
            require_range("one of the clients", n_clients, 1, option="clients")
        require_range("seconds", self.seconds, 0.1, option="seconds")
        require_choice("precision", self.precision, PRECISIONS, option="precision")


@dataclass(frozen=True)
class RuntimesOptions(Settings):
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

    def __post_init__(self) -> None:
        _require_positive(self, "sentences", "batch_words", "latency_sentences", "starts", "repeats")
        require_range("warmup", self.warmup, 0, option="warmup")
        for name in ("models", "precisions"):
            if not getattr(self, name):
                raise ConfigError(f"{name} is empty", "Give one or more", option=name)
        for precision in self.precisions:
            require_choice("precision", precision, PRECISIONS[1:], option="precisions")


@dataclass(frozen=True)
class CorpusOptions(Settings):
    """Options of the corpus benchmark.

    Attributes:
        data: Texts: JSON lines, Parquet, CSV or text files. Default: the texts of the example corpus.
        field: Field or column that contains the text.
        documents: Number of documents to use, from the beginning of the data.
        splits: Workers x threads to compare. The first has to have one worker.
        factors: How many times the data is repeated for the memory.
        shard_documents: Maximum number of documents in a shard.
        repeats: Measured runs; the median is reported.
    """

    model: str | None = None
    data: str | None = None
    field: str = "text"
    documents: int = 2000
    splits: tuple[str, ...] = ("1x2", "2x1")
    factors: tuple[int, ...] = (1, 10)
    shard_documents: int = 200
    batch_words: int = 4096
    precision: str = "auto"
    repeats: int = 3
    device: str = "auto"

    def __post_init__(self) -> None:
        _require_positive(self, "documents", "shard_documents", "batch_words", "repeats")
        require_choice("precision", self.precision, PRECISIONS, option="precision")
        for factor in self.factors:
            require_range("one of the factors", factor, 1, option="factors")
        if not self.splits or self.pairs[0][0] != 1:
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
