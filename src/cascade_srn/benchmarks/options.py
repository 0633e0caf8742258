"""What the benchmark of the service can be asked to measure; free of torch and of the service's libraries."""

from __future__ import annotations

from dataclasses import dataclass

from cascade_srn.config import PRESETS, Settings, preset_axes, require_choice, require_range
from cascade_srn.errors import ConfigError

PRECISIONS = ("auto", "float32", "bf16")


@dataclass(frozen=True)
class SrnOptions(Settings):
    """The SRN's cell against an LSTM of the same widths; a shape is sentences × words."""

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
        require_range("n_tasks", self.n_tasks, 2)
        require_range("warmup", self.warmup, 0)


@dataclass(frozen=True)
class ExtractOptions(Settings):
    """From words to triples. ``model`` is a saved one; else models of ``presets`` are made over ``encoder``.

    ``batch_sentences`` (0: off) puts that many sentences into a batch instead of ``batch_words`` words.
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
            require_range(name, getattr(self, name), 0)
        require_choice("precision", self.precision, PRECISIONS)
        _require_presets(self.presets)
        if self.model is not None:
            for name, given in (("encoder", self.encoder is not None), ("train_steps", self.train_steps > 0)):
                if given:
                    raise ConfigError(f"a saved model was given and {name!r} as well; give one of the two")
        if self.train_steps and self.given_entities:
            raise ConfigError(
                "both train_steps and given_entities were asked for; train briefly to measure what the model "
                "finds itself, or give the entities, which needs no training"
            )


@dataclass(frozen=True)
class TrainOptions(Settings):
    """The training loop, by fusion preset and batch size."""

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
        require_choice("precision", self.precision, ("float32", "tf32", "bf16"))
        _require_presets(self.presets)


@dataclass(frozen=True)
class GrowthOptions(Settings):
    """How the cost of extraction grows: with sentence length, subjects in a sentence, and corpus size.

    ``batch_sentences`` sentences are measured together; ``subject_words`` is the length of the sentences in
    which the number of subjects grows.
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
        require_range("warmup", self.warmup, 0)
        for name in ("lengths", "subjects", "factors"):
            for value in getattr(self, name):
                require_range(f"one of the {name}", value, 1)
        if self.subjects and max(self.subjects) > self.subject_words:
            raise ConfigError(
                f"{max(self.subjects)} subjects were asked for in a sentence of {self.subject_words} words; "
                "raise subject_words or lower subjects"
            )
        require_choice("precision", self.precision, PRECISIONS)
        _require_presets((self.preset,))
        if self.model is not None and self.encoder is not None:
            raise ConfigError("a saved model was given and 'encoder' as well; give one of the two")


@dataclass(frozen=True)
class WorstTextOptions(Settings):
    """Options of the search for the most expensive text.

    Attributes:
        model: Folder or hub id of a saved model; the bundled one if None.
        characters: Length of the longest texts.
        patterns: Names of the built-in patterns to start from; all of them if empty.
        seconds: Wall-clock budget of the whole search.
        limit_seconds: CPU seconds after which a text is given up.
        limit_megabytes: Resident set, in MiB, at which a text is given up.
        threads: Threads of torch in the measured process.
        seed: Seed of the random changes.
        max_ratio: Largest acceptable ratio to ordinary text; None accepts any.
    """

    model: str | None = None
    characters: int = 100_000
    patterns: tuple[str, ...] = ()
    seconds: float = 900.0
    limit_seconds: float = 60.0
    limit_megabytes: int = 4096
    threads: int = 2
    seed: int = 0
    max_ratio: float | None = None

    def __post_init__(self) -> None:
        _require_positive(self, "characters", "limit_megabytes", "threads")
        for name in ("seconds", "limit_seconds"):
            require_range(name, getattr(self, name), 0.1)
        if self.max_ratio is not None:
            require_range("max_ratio", self.max_ratio, 1)


def _require_positive(options: Settings, *names: str) -> None:
    for name in names:
        require_range(name, getattr(options, name), 1)


def _require_presets(names: tuple[str, ...]) -> None:
    if not names:
        raise ConfigError(f"no fusion preset was named; give one or more of {', '.join(PRESETS)}")
    for name in names:
        preset_axes(name)


@dataclass(frozen=True)
class ServeOptions(Settings):
    """One client, then ``clients`` of them at once for ``seconds``, each asking anew as soon as it has its answer.

    ``model`` is a saved one; without one a small one is made, its heads at random.
    """

    model: str | None = None
    data: str | None = None
    sentences: int = 500
    clients: int = 1000
    seconds: float = 30.0
    single: int = 200
    batch_words: int = 1024
    precision: str = "auto"
    device: str = "auto"

    def __post_init__(self) -> None:
        for name in ("sentences", "clients", "single", "batch_words"):
            require_range(name, getattr(self, name), 1)
        require_range("seconds", self.seconds, 0.1)
        require_choice("precision", self.precision, PRECISIONS)
