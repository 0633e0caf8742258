"""Settings of models: frozen dataclasses that check their values and convert to and from plain mappings."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType, UnionType
from typing import Any, Self, get_args, get_origin, get_type_hints

from cascade_srn.errors import ConfigError, did_you_mean, short_repr, suggest

# Name of the encoder with random weights and a vocabulary of the training words, for recipes.
FRESH = "fresh"
# Model families: the cascade and the baselines (docs/baselines.md).
MODEL_FAMILIES = ("cascade", "pfn", "table-srn", "pipeline")
# The largest seed that numpy accepts.
MAX_SEED = 2**32 - 1
POOLINGS = ("first", "mean", "max")
SEQUENCE_ENCODERS = ("srn", "bisrn", "bilstm")
# auto: triton on a GPU if it is installed and supports the shape, else fused.
SRN_BACKENDS = ("auto", "plain", "fused", "triton")
MATCHERS = ("mlp", "linear")
# What the model reads for a word (text/forms.py).
TEXT_FORMS = ("natural", "escaped", "verbatim")
ENTITY_FUSIONS = ("none", "markers", "tags")
SUBJECT_FUSIONS = ("markers", "tag", "span")
# What to do with entities that share words, from the simplest result to the least restricted (inference/decode.py).
OVERLAPS = ("flat", "nested", "all")
# Whether the constraints of the schema are applied to predicted relations.
CONSTRAINTS = ("off", "on")
# Precisions of the encoder in prediction. "auto" is bf16 on a GPU, and float32 otherwise.
PRECISIONS = ("auto", "float32", "bf16")


@dataclass(frozen=True)
class Settings:
    """Base class of all settings."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], where: str = "the configuration") -> Self:
        """Build settings from plain values.

        Args:
            values: The settings by name, as JSON or YAML holds them. Sections may be mappings or settings objects.
            where: Source of the values, for error messages.

        Raises:
            ConfigError: If a setting is unknown, is missing, or has a wrong type or value.
        """
        if not isinstance(values, Mapping):
            raise ConfigError(f"{where} is {short_repr(values)}", "Give a mapping of settings to values")
        hints = get_type_hints(cls)
        fields = {field.name: field for field in dataclasses.fields(cls)}
        given = {}
        for key, value in values.items():
            if key not in fields:
                raise ConfigError(f"{where} has no setting {key!r}", did_you_mean(str(key), fields))
            given[key] = _convert(value, hints[key], f"{where}: {key}")
        for name, field_ in fields.items():
            is_required = field_.default is field_.default_factory is dataclasses.MISSING
            if is_required and name not in given:
                raise ConfigError(f"{where} lacks the setting {name!r}", "Give it a value")
        return cls(**given)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that :meth:`from_dict` accepts."""
        return dataclasses.asdict(self)


def _convert(value: Any, hint: Any, where: str) -> Any:
    """Convert a plain value to the type of a field, or raise a ConfigError."""
    options = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    for option in options:
        origin = get_origin(option)
        if origin is dict and isinstance(value, Mapping):
            _, inner = get_args(option)
            return {str(key): _convert(item, inner, f"{where}.{key}") for key, item in value.items()}
        if origin is tuple and isinstance(value, list | tuple):
            return _convert_items(value, get_args(option), where)
        if origin is not None:
            continue
        if issubclass(option, Settings):
            return value if isinstance(value, option) else option.from_dict(value, where)
        if option is float and isinstance(value, int | float) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError as error:
                raise ConfigError(f"{where} is {short_repr(value)}", "Give a smaller number") from error
        if isinstance(value, option) and isinstance(value, bool) == (option is bool):
            if isinstance(value, str):
                _check_text(value, where)
            return value
    plain = {NoneType: "null", dict: "mapping", tuple: "list"}
    kinds = [get_origin(option) or option for option in options]
    expected = " or ".join(plain.get(kind, kind.__name__) for kind in kinds)
    raise ConfigError(f"{where} is {short_repr(value)} ({type(value).__name__})", f"Give a value of type {expected}")


def _check_text(value: str, where: str) -> None:
    """Refuse characters that no path and no UTF-8 file can contain: NUL and unpaired surrogates."""
    if "\0" in value or any("\ud800" <= char <= "\udbff" or "\udc00" <= char < "\udc80" for char in value):
        raise ConfigError(f"{where} is {short_repr(value)}, which contains an invalid character", "Remove it")


def _convert_items(values: Sequence[Any], hints: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    types = hints[:1] * len(values) if hints[-1] is Ellipsis else hints
    if len(values) != len(types):
        raise ConfigError(f"{where} is {short_repr(values)}", f"Give a list of {len(types)} values")
    pairs = enumerate(zip(values, types, strict=True))
    return tuple(_convert(value, hint, f"{where}[{at}]") for at, (value, hint) in pairs)


def check_overlaps(value: str | None) -> None:
    """Raise a ConfigError if a value is neither None nor one of ``OVERLAPS``."""
    if value is not None:
        require_choice("overlaps", value, OVERLAPS, option="overlaps")


def require_choice(name: str, value: str, choices: tuple[str, ...], *, option: str = "") -> None:
    """Raise a ConfigError if a value is not one of the choices. ``name`` is the name of the setting."""
    if value not in choices:
        raise ConfigError(
            f"{name} is {value!r}, not one of {', '.join(choices)}", suggest(str(value), choices), option=option
        )


def require_range(name: str, value: float, low: float, high: float = math.inf, *, option: str = "") -> None:
    """Raise a ConfigError if a number is not finite or outside ``[low, high]``. ``name`` is the name of the setting."""
    if not low <= value <= high or value == math.inf:
        bounds = f"of at least {low}" if high == math.inf else f"from {low} to {high}"
        raise ConfigError(f"{name} is {value!r}", f"Give a number {bounds}", option=option)


@dataclass(frozen=True)
class FusionSettings(Settings):
    """How the entities of turn 1 and the current subject reach the later turns: two independent axes.

    Attributes:
        entities: "markers" inserts markers into the text, "tags" embeds the entity type of each word, "none" passes
            nothing on.
        subject: "markers" inserts markers, "tag" embeds whether a word is in the subject, "span" joins each word with
            the representation of the subject.
        tag_width: Width of the tag embeddings.
        max_distance: Largest distance to the subject that "span" tells apart, in words.
    """

    entities: str = "tags"
    subject: str = "span"
    tag_width: int = 32
    max_distance: int = 24

    def __post_init__(self) -> None:
        require_choice("fusion.entities", self.entities, ENTITY_FUSIONS)
        if self.subject == "none":
            raise ConfigError(
                "fusion.subject is 'none', but turn 3 must know the subject whose objects it extracts",
                f"Choose one of {', '.join(SUBJECT_FUSIONS)}",
            )
        require_choice("fusion.subject", self.subject, SUBJECT_FUSIONS)
        require_range("fusion.tag_width", self.tag_width, 1)
        require_range("fusion.max_distance", self.max_distance, 1)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any] | str, where: str = "fusion") -> Self:
        """Build settings from plain values, or from a preset: its name, or ``{"preset": name, …}`` with widths."""
        if isinstance(values, str):
            values = {"preset": values}
        if isinstance(values, Mapping) and "preset" in values:
            chosen = {key: value for key, value in values.items() if key != "preset"}
            for axis in ("entities", "subject"):
                if axis in chosen:
                    raise ConfigError(
                        f"{where} has both the preset {values['preset']!r} and {axis!r}",
                        "Give either a preset or the two axes",
                    )
            entities, subject = preset_axes(values["preset"])
            values = {"entities": entities, "subject": subject, **chosen}
        return super().from_dict(values, where)

    @property
    def preset(self) -> str | None:
        """Name of the preset with these axes, or None."""
        axes = (self.entities, self.subject)
        return next((name for name, known in PRESETS.items() if known == axes), None)


# Named combinations of the entity axis and the subject axis.
PRESETS: dict[str, tuple[str, str]] = {
    "early": ("markers", "markers"),
    "late": ("tags", "tag"),
    "subject-marker": ("none", "markers"),
    "swift": ("tags", "span"),
    "hybrid": ("markers", "span"),
}


def preset_axes(name: str) -> tuple[str, str]:
    """Return the entity axis and the subject axis of a preset."""
    if not isinstance(name, str) or name not in PRESETS:
        raise ConfigError(f"there is no fusion preset {name!r}", did_you_mean(str(name), PRESETS))
    return PRESETS[name]


@dataclass(frozen=True)
class EncoderSettings(Settings):
    """The pretrained encoder, and how words are read from it.

    Attributes:
        name: A hub id or a folder.
        pooling: How the vectors of the pieces of a word become one vector: "first", "mean" or "max".
        max_pieces: Size of the windows over long sentences, in pieces. None: the limit of the encoder.
        overlap: Overlap of two windows, in pieces. None: a quarter of a window.
        context_words: Words of the same document on each side of a sentence that the encoder reads as context.
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
    """Weights of the three losses of one turn: the paper's α (start), β (end) and γ (match)."""

    start: float = 1.0
    end: float = 1.0
    match: float = 1.0

    def __post_init__(self) -> None:
        for name in ("start", "end", "match"):
            require_range(f"the loss weight {name}", getattr(self, name), 0, 1)


@dataclass(frozen=True)
class TurnWeights(Settings):
    """The nine loss weights, three per turn."""

    entity: LossWeights = field(default_factory=LossWeights)
    subject: LossWeights = field(default_factory=LossWeights)
    object: LossWeights = field(default_factory=LossWeights)


@dataclass(frozen=True)
class Thresholds(Settings):
    """Minimum scores of predictions.

    Attributes:
        entity: Minimum score of an entity in turn 1.
        subject: Minimum score of a subject in turn 2.
        object: Minimum score of an object in turn 3.
        entity_types: Thresholds of single entity types, instead of ``entity``.
        relation_types: Thresholds of single relation types, instead of ``object``.
        related: Lower threshold for entities that have a relation. Entities between ``related`` and ``entity`` are
            passed to turns 2 and 3, and are predicted only if these find a relation of theirs. None: not used.
        relation: Minimum score of a relation, which is the product of the scores of its object and its two entities.
            None: not used.

    Example:
        >>> Thresholds(entity=0.4, relation_types={"PART-OF": 0.3}).to_dict()["relation_types"]
        {'PART-OF': 0.3}
        >>> Thresholds(entity=1.5)
        Traceback (most recent call last):
        cascade_srn.errors.ConfigError: the threshold entity is 1.5. Give a number from 0 to 1.
    """

    entity: float = 0.5
    subject: float = 0.5
    object: float = 0.5
    entity_types: dict[str, float] = field(default_factory=dict)
    relation_types: dict[str, float] = field(default_factory=dict)
    related: float | None = None
    relation: float | None = None

    def __post_init__(self) -> None:
        for name in ("entity", "subject", "object", "related", "relation"):
            if (value := getattr(self, name)) is not None:
                require_range(f"the threshold {name}", value, 0, 1)
        for label, value in (*self.entity_types.items(), *self.relation_types.items()):
            require_range(f"the threshold of {label!r}", value, 0, 1)


@dataclass(frozen=True)
class Temperatures(Settings):
    """Divisors and offsets of logits, chosen by calibration so that scores are probabilities.

    A calibrated logit is ``logit / temperature + offset``. Temperatures above 1 make scores less extreme. Offsets below
    0 make them lower.

    Attributes:
        entity: Temperature of turn 1.
        subject: Temperature of turn 2.
        object: Temperature of turn 3.
        relation: Temperature of the score of a relation, which is the product of the scores of its object and its two
            entities.
        entity_offsets: Offsets of entity types in turn 1. Other types have the offset 0.
        relation_offsets: Offsets of relation types, for the score of a relation.
    """

    entity: float = 1.0
    subject: float = 1.0
    object: float = 1.0
    relation: float = 1.0
    entity_offsets: dict[str, float] = field(default_factory=dict)
    relation_offsets: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("entity", "subject", "object", "relation"):
            require_range(f"the temperature {name}", getattr(self, name), 0.01, 100)
        for label, value in (*self.entity_offsets.items(), *self.relation_offsets.items()):
            require_range(f"the offset of {label!r}", value, -100, 100)

    @property
    def scales_relations(self) -> bool:
        """Whether the score of a relation is not just the product of the scores of its object and its entities."""
        return self.relation != 1 or bool(self.relation_offsets)


@dataclass(frozen=True)
class SearchLimits(Settings):
    """Bounds on the work per sentence, so that the cost of prediction grows linearly with the text.

    If a bound applies, the candidates with the best scores are kept and a warning is given. Ordinary text stays below
    all bounds: no sentence of SciERC reaches one, even with all thresholds at 0.05.

    Attributes:
        entity_words: Maximum length of an entity, in words.
        entities_per_word: Maximum number of entities, per word of the sentence.
        pairs_per_word: Maximum number of pairs of a subject and an object that turn 3 scores, per word of the
            sentence. Turns 2 and 3 consider the best ``sqrt(pairs_per_word * n_words)`` spans.
        relations_per_word: Maximum number of relations, per word of the sentence.
        marked_subjects: Maximum number of subjects, if each one needs its own encoding (``markers``).
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
        """Return the maximum number of entities of a sentence."""
        return max(_SHORT_SENTENCE_SPANS, self.entities_per_word * n_words)

    def max_spans(self, n_words: int) -> int:
        """Return the maximum number of spans of a sentence that turns 2 and 3 consider."""
        return max(_SHORT_SENTENCE_SPANS, math.isqrt(self.pairs_per_word * n_words))

    def max_relations(self, n_words: int) -> int:
        """Return the maximum number of relations of a sentence."""
        return max(_SHORT_SENTENCE_SPANS, self.relations_per_word * n_words)


# No limit is lower than this: a short sentence cannot have many spans.
_SHORT_SENTENCE_SPANS = 16


@dataclass(frozen=True)
class BaselineSettings(Settings):
    """Settings of the baselines only.

    Attributes:
        drop_connect: Share of the recurrent weights of PFN that are dropped in a training batch.
        max_span_words: Maximum length of the spans that the pipeline classifies, in words.
        length_width: Width of the pipeline's embedding of span lengths.
        span_width: Width of the pipeline's hidden layers.
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
    """Settings that determine the architecture and behaviour of a model. They are stored with it.

    Attributes:
        encoder: The pretrained encoder.
        fusion: How entities and subject reach the later turns.
        sequence_encoder: "srn", "bisrn" (both directions) or "bilstm".
        srn_backend: Implementation of the SRN. All compute the same.
        hidden_width: Width of the sequence encoder.
        matcher: "mlp" (ours) or "linear" (eq. 13).
        matcher_width: Width of the hidden layer of the "mlp" matcher.
        dropout: Dropout of the word vectors before the sequence encoder.
        head_dropout: Dropout of the representations before the heads. None: the same as ``dropout``.
        joint: False for the paper's independent entity model, which has turn 1 only.
        loss_weights: Weights of the losses.
        thresholds: Default thresholds of the model.
        temperatures: Temperatures of the model.
        limits: Bounds on the work per sentence.
        overlaps: Default for entities that share words: "flat" (no two entities share a word), "nested" (entities may
            contain each other, but not cross) or "all". None: not chosen, the same as "flat".
        method: Model family: "cascade" or a baseline. Baselines ignore some settings (docs/baselines.md).
        baseline: Settings of the baselines.
        constraints: "on" if the constraints of the schema are applied to relations by default, else "off".
        text_form: Characters that the model reads: "natural" (plain quotes and hyphens, no invisible characters),
            "escaped" (the same, with brackets and double quotes as in the Penn Treebank) or "verbatim".
        start: In a recipe, the trained model whose weights training starts from: a model folder, the name of a bundled
            model, or a hub id. It is not stored with the model.

    Example:
        >>> settings = ModelSettings.from_dict({"encoder": {"name": "roberta-base"}, "fusion": "late"})
        >>> settings.fusion
        FusionSettings(entities='tags', subject='tag', tag_width=32, max_distance=24)
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
    overlaps: str | None = None
    method: str = "cascade"
    baseline: BaselineSettings = field(default_factory=BaselineSettings)
    constraints: str = "off"
    text_form: str = "natural"
    start: str | None = None

    def __post_init__(self) -> None:
        require_choice("text_form", self.text_form, TEXT_FORMS)
        require_choice("method", self.method, MODEL_FAMILIES)
        require_choice("sequence_encoder", self.sequence_encoder, SEQUENCE_ENCODERS)
        require_choice("srn_backend", self.srn_backend, SRN_BACKENDS)
        require_choice("matcher", self.matcher, MATCHERS)
        check_overlaps(self.overlaps)
        require_choice("constraints", self.constraints, CONSTRAINTS)
        require_range("hidden_width", self.hidden_width, 1)
        require_range("matcher_width", self.matcher_width, 1)
        require_range("dropout", self.dropout, 0, 0.99)
        if self.head_dropout is not None:
            require_range("head_dropout", self.head_dropout, 0, 0.99)
