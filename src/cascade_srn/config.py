"""Settings as frozen dataclasses: read from plain mappings, unknown keys and wrong values refused."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Any, Self, get_args, get_origin, get_type_hints

from cascade_srn.errors import ConfigError, close_to, did_you_mean

# The cascade, and what it is compared with (docs/baselines.md).
# What a recipe calls the encoder that starts at random, with a vocabulary of the training words.
FRESH = "fresh"
METHODS = ("cascade", "pfn", "table-srn", "pipeline")
# The largest seed that numpy takes.
MAX_SEED = 2**32 - 1
POOLINGS = ("first", "mean", "max")
SEQUENCE_ENCODERS = ("srn", "bisrn", "bilstm")
# auto: triton on a GPU where it is installed and covers the shape, else fused.
SRN_BACKENDS = ("auto", "plain", "fused", "triton")
MATCHERS = ("mlp", "linear")
ENTITY_FUSIONS = ("none", "markers", "tags")
SUBJECT_FUSIONS = ("markers", "tag", "span")


@dataclass(frozen=True)
class Settings:
    """Base of all settings: to and from plain values."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "the configuration") -> Self:
        """Build from plain values; ``where`` names the source in error messages."""
        if not isinstance(values, Mapping):
            raise ConfigError(f"{where} is {brief(values)}; give a mapping of settings to values")
        hints = get_type_hints(cls)
        known = {f.name for f in dataclasses.fields(cls)}
        given = {}
        for key, value in values.items():
            if key not in known:
                raise ConfigError(f"{where} has no setting {key!r}. {did_you_mean(str(key), known)}")
            given[key] = _checked(value, hints[key], f"{where}: {key}")
        missing = [
            f.name
            for f in dataclasses.fields(cls)
            if f.name not in given and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        ]
        if missing:
            raise ConfigError(f"{where} lacks the setting {missing[0]!r}; give it a value")
        return cls(**given)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, from which :meth:`from_dict` builds an equal object."""
        return dataclasses.asdict(self)


def brief(value: Any) -> str:
    """Return a value as it is written in Python, cut off where it is long."""
    shown = repr(value)
    return shown if len(shown) <= 200 else f"{shown[:200]}…"


def _checked(value: Any, hint: Any, where: str) -> Any:
    """``value`` as the type a field wants, or a refusal."""
    options = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    for option in options:
        if isinstance(option, type) and issubclass(option, Settings):
            if isinstance(value, option):
                return value
            return option.from_dict(value, where)
        if option is float and isinstance(value, int | float) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError as error:
                raise ConfigError(f"{where} is {brief(value)}; give a smaller number") from error
        if option is NoneType and value is None:
            return None
        if get_origin(option) is dict:
            if isinstance(value, Mapping):
                return {
                    str(key): _checked(inner, get_args(option)[1], f"{where}.{key}") for key, inner in value.items()
                }
            continue
        if get_origin(option) is tuple:
            if isinstance(value, list | tuple):
                return _checked_items(value, get_args(option), where)
            continue
        if isinstance(value, option) and isinstance(value, bool) == (option is bool):
            if isinstance(value, str):
                _check_text(value, where)
            return value
    plain = {NoneType: "null", dict: "mapping", tuple: "list"}
    kinds = [get_origin(option) or option for option in options]
    expected = " or ".join(plain.get(kind, kind.__name__) for kind in kinds)
    raise ConfigError(f"{where} is {brief(value)} ({type(value).__name__}); give a value of type {expected}")


def _check_text(value: str, where: str) -> None:
    """Refuse characters that can be in no path and no UTF-8 file: NUL, and half a surrogate pair."""
    if "\0" in value or any("\ud800" <= char <= "\udbff" or "\udc00" <= char < "\udc80" for char in value):
        raise ConfigError(f"{where} is {brief(value)}, which holds a character that no text has; leave it out")


def _checked_items(values: Sequence[Any], hints: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    """The values of a list, each of its type: the same one of any number, or one of each."""
    wanted = hints[:1] * len(values) if hints[-1] is Ellipsis else hints
    if len(values) != len(wanted):
        raise ConfigError(f"{where} is {brief(values)}; give a list of {len(wanted)} values")
    pairs = enumerate(zip(values, wanted, strict=True))
    return tuple(_checked(value, hint, f"{where}[{at}]") for at, (value, hint) in pairs)


def require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a value that is none of the choices."""
    if value not in choices:
        raise ConfigError(f"{name} is {value!r}, not one of {', '.join(choices)}{close_to(value, choices)}")


def require_range(name: str, value: float, low: float, high: float = math.inf) -> None:
    """Refuse a number outside ``[low, high]``, and one that is not finite."""
    if not low <= value <= high or value == math.inf:
        bound = f"at least {_number(low)}" if high == math.inf else f"from {_number(low)} to {_number(high)}"
        raise ConfigError(f"{name} is {value!r}; give a number {bound}")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


@dataclass(frozen=True)
class FusionSettings(Settings):
    """How the entities of turn 1 and the current subject reach the later turns: two independent axes."""

    entities: str = "tags"
    subject: str = "span"
    tag_width: int = 32
    max_distance: int = 24

    def __post_init__(self) -> None:
        require_choice("fusion.entities", self.entities, ENTITY_FUSIONS)
        if self.subject == "none":
            raise ConfigError(
                "fusion.subject is 'none', but the object turn extracts the objects of one subject and must be "
                f"told which; choose one of {', '.join(SUBJECT_FUSIONS)}"
            )
        require_choice("fusion.subject", self.subject, SUBJECT_FUSIONS)
        require_range("fusion.tag_width", self.tag_width, 1)
        require_range("fusion.max_distance", self.max_distance, 1)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any] | str, where: str = "fusion") -> Self:
        """Also takes the name of a preset, alone or as ``{"preset": name, …}`` with widths beside it."""
        if isinstance(values, str):
            values = {"preset": values}
        if isinstance(values, Mapping) and "preset" in values:
            chosen = {key: value for key, value in values.items() if key != "preset"}
            for axis in ("entities", "subject"):
                if axis in chosen:
                    raise ConfigError(
                        f"{where} names the preset {values['preset']!r} and {axis!r} as well; "
                        "give a preset, or both axes, not both"
                    )
            entities, subject = preset_axes(values["preset"])
            values = {"entities": entities, "subject": subject, **chosen}
        return super().from_dict(values, where)

    @property
    def preset(self) -> str | None:
        """The name of the preset with these axes, if there is one."""
        axes = (self.entities, self.subject)
        return next((name for name, known in PRESETS.items() if known == axes), None)


# The entity axis and the subject axis of each named combination (DESIGN: two axes, not two classes).
PRESETS: dict[str, tuple[str, str]] = {
    "early": ("markers", "markers"),
    "late": ("tags", "tag"),
    "subject-marker": ("none", "markers"),
    "swift": ("tags", "span"),
    "hybrid": ("markers", "span"),
}


def preset_axes(name: str) -> tuple[str, str]:
    """The two axes that a preset stands for."""
    if not isinstance(name, str) or name not in PRESETS:
        raise ConfigError(f"there is no fusion preset {name!r}. {did_you_mean(str(name), PRESETS)}")
    return PRESETS[name]


@dataclass(frozen=True)
class EncoderSettings(Settings):
    """The pretrained encoder: a hub id or a folder, and how words are read from it.

    ``max_pieces`` and ``overlap`` shape the windows over sentences past the encoder's limit (None: the
    encoder's own limit, and a quarter of it). ``context_words`` words of the same document on each side are
    shown to the encoder only.
    """

    name: str
    pooling: str = "mean"
    max_pieces: int | None = None
    overlap: int | None = None
    context_words: int = 0

    def __post_init__(self) -> None:
        require_choice("encoder.pooling", self.pooling, POOLINGS)
        if self.max_pieces is not None:
            require_range("encoder.max_pieces", self.max_pieces, 8)
        if self.overlap is not None:
            require_range("encoder.overlap", self.overlap, 0)
        require_range("encoder.context_words", self.context_words, 0)


@dataclass(frozen=True)
class LossWeights(Settings):
    """The weights of one turn's three losses: the paper's α (start), β (end) and γ (match)."""

    start: float = 1.0
    end: float = 1.0
    match: float = 1.0

    def __post_init__(self) -> None:
        for name in ("start", "end", "match"):
            require_range(f"the loss weight {name}", getattr(self, name), 0, 1)


@dataclass(frozen=True)
class TurnWeights(Settings):
    """The nine loss weights, three for each turn."""

    entity: LossWeights = field(default_factory=LossWeights)
    subject: LossWeights = field(default_factory=LossWeights)
    object: LossWeights = field(default_factory=LossWeights)


@dataclass(frozen=True)
class Thresholds(Settings):
    """What a span's score must reach for it to be predicted, by turn.

    ``entity_types`` and ``relation_types`` give single labels a threshold other than that of turn 1 or turn 3. With
    ``related`` below that of an entity, one that turn 1 is less sure of is shown to the later turns all the same, and
    is predicted if they find a relation of it. ``relation`` is for the score of a relation as a whole, the one that it
    is predicted with.
    """

    entity: float = 0.5
    subject: float = 0.5
    object: float = 0.5
    entity_types: dict[str, float] = field(default_factory=dict)
    relation_types: dict[str, float] = field(default_factory=dict)
    related: float | None = None
    relation: float | None = None

    def __post_init__(self) -> None:
        for name in ("entity", "subject", "object"):
            require_range(f"the threshold {name}", getattr(self, name), 0, 1)
        for name in ("related", "relation"):
            if getattr(self, name) is not None:
                require_range(f"the threshold {name}", getattr(self, name), 0, 1)
        for label, value in (*self.entity_types.items(), *self.relation_types.items()):
            require_range(f"the threshold of {label!r}", value, 0, 1)


@dataclass(frozen=True)
class Temperatures(Settings):
    """What logits are divided by before they become probabilities, by turn: above 1 where a model is too sure."""

    entity: float = 1.0
    subject: float = 1.0
    object: float = 1.0

    def __post_init__(self) -> None:
        for name in ("entity", "subject", "object"):
            require_range(f"the temperature {name}", getattr(self, name), 0.01, 100)


@dataclass(frozen=True)
class SearchLimits(Settings):
    """Bounds on what prediction looks at in one sentence, so that its cost grows with the text and no faster.

    Where a bound applies, the best candidates by score are kept and a warning is given. Ordinary text stays below all
    of them: on SciERC no sentence reaches one, even with all thresholds at 0.05.

    Attributes:
        entity_words: Length of the longest entity that is considered, in words.
        entities_per_word: Entities that are kept, per word of the sentence.
        pairs_per_word: Pairs of a subject and an object that turn 3 scores, per word of the sentence. Turns 2 and 3
            look at the best ``sqrt(pairs_per_word * n_words)`` spans, so that all their pairs stay within this bound.
        relations_per_word: Relations that are kept, per word of the sentence.
        marked_subjects: Subjects per sentence where each one needs an encoding of its own (``markers``).
    """

    entity_words: int = 128
    entities_per_word: int = 2
    pairs_per_word: int = 32
    relations_per_word: int = 8
    marked_subjects: int = 32

    def __post_init__(self) -> None:
        for limit in dataclasses.fields(self):
            require_range(f"limits.{limit.name}", getattr(self, limit.name), 1)

    def max_entities(self, n_words: int) -> int:
        """Return how many entities of a sentence are kept."""
        return max(_SHORT_SENTENCE_SPANS, self.entities_per_word * n_words)

    def max_spans(self, n_words: int) -> int:
        """Return how many spans of a sentence turns 2 and 3 look at."""
        return max(_SHORT_SENTENCE_SPANS, math.isqrt(self.pairs_per_word * n_words))

    def max_relations(self, n_words: int) -> int:
        """Return how many relations of a sentence are kept."""
        return max(_SHORT_SENTENCE_SPANS, self.relations_per_word * n_words)


# A short sentence is never limited to less than this: it cannot have many spans anyway.
_SHORT_SENTENCE_SPANS = 16


@dataclass(frozen=True)
class BaselineSettings(Settings):
    """What only the baselines have.

    ``drop_connect`` is the share of PFN's recurrent weights that a training batch does without. The pipeline
    classifies spans of up to ``max_span_words`` words; it tells how many they are by an embedding of
    ``length_width``, and has hidden layers of ``span_width``.
    """

    drop_connect: float = 0.1
    max_span_words: int = 8
    length_width: int = 150
    span_width: int = 150

    def __post_init__(self) -> None:
        require_range("baseline.drop_connect", self.drop_connect, 0, 0.99)
        for name in ("max_span_words", "length_width", "span_width"):
            require_range(f"baseline.{name}", getattr(self, name), 1)


@dataclass(frozen=True)
class ModelSettings(Settings):
    """Everything that decides a model's shape and behaviour, stored with it.

    ``method`` is the cascade or one of the baselines, each of which reads some of the settings (docs/baselines.md).
    ``joint=False`` is the paper's independent entity model: turn 1 alone, no relations. ``dropout`` is that of the
    words' vectors before the sequence encoder, ``head_dropout`` that of its representations before the heads (None:
    the same).
    """

    encoder: EncoderSettings
    fusion: FusionSettings = field(default_factory=FusionSettings)
    sequence_encoder: str = "srn"
    srn_backend: str = "auto"
    hidden_width: int = 128
    matcher: str = "mlp"
    matcher_width: int = 128
    dropout: float = 0.1
    head_dropout: float | None = None
    joint: bool = True
    loss_weights: TurnWeights = field(default_factory=TurnWeights)
    thresholds: Thresholds = field(default_factory=Thresholds)
    temperatures: Temperatures = field(default_factory=Temperatures)
    limits: SearchLimits = field(default_factory=SearchLimits)
    method: str = "cascade"
    baseline: BaselineSettings = field(default_factory=BaselineSettings)

    def __post_init__(self) -> None:
        require_choice("method", self.method, METHODS)
        require_choice("sequence_encoder", self.sequence_encoder, SEQUENCE_ENCODERS)
        require_choice("srn_backend", self.srn_backend, SRN_BACKENDS)
        require_choice("matcher", self.matcher, MATCHERS)
        require_range("hidden_width", self.hidden_width, 1)
        require_range("matcher_width", self.matcher_width, 1)
        require_range("dropout", self.dropout, 0, 0.99)
        if self.head_dropout is not None:
            require_range("head_dropout", self.head_dropout, 0, 0.99)
