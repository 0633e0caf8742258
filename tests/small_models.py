"""Tiny models over a random encoder, and annotated sentences, for tests of everything above the encoder."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cascade_srn.config import EncoderSettings, FusionSettings, ModelSettings, SearchLimits, Thresholds
from cascade_srn.encoder.fresh import create_encoder
from cascade_srn.encoder.pieces import Row
from cascade_srn.model.model import Model
from cascade_srn.network.examples import Example
from cascade_srn.network.markers import Markers
from cascade_srn.network.span_extraction import LinearMatcher, SpanExtractor
from cascade_srn.schema import Schema
from cascade_srn.storage.bundled import find_model
from cascade_srn.types import Sentence, Span, Triple

SCHEMA = Schema(("Metric", "Task", "Thing"), ("compare", "part-of", "used-for"), frozenset({"compare"}))


def link_bundled_model(folder: Path, *left_out: str) -> Path:
    """Make a folder with hard links to the files of the bundled model. Remove a file before you write it."""

    def link(source: str, target: str) -> None:
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)

    return Path(shutil.copytree(find_model(), folder, copy_function=link, ignore=lambda *_: left_out))


def _sentence(text: str, entities: list[Span], triples: list[tuple[int, str, int]] = ()) -> Sentence:
    """Make a sentence. ``triples`` refer to entities by position."""
    return Sentence.from_words(
        text.split(), entities, [Triple(entities[head], label, entities[tail]) for head, label, tail in triples]
    )


# An entity inside another one, each a subject of its own.
NESTED = _sentence(
    "neural speech recognition systems need data",
    [Span(0, 4, "Thing"), Span(1, 3, "Task"), Span(5, 6, "Thing")],
    [(0, "used-for", 1), (2, "part-of", 0)],
)
# Two labels on the same words, and a relation between the two.
SAME_SPAN = _sentence(
    "accuracy measures the parser",
    [Span(0, 1, "Metric"), Span(0, 1, "Task"), Span(3, 4, "Thing")],
    [(0, "used-for", 2), (1, "part-of", 0)],
)
NO_ENTITY = _sentence("this is not about anything", [])
NO_RELATION = _sentence("we train tagging models", [Span(2, 4, "Thing")])
# One subject with two objects, of different relation types.
SHARED_SUBJECT = _sentence(
    "a tagger helps parsing , translation and search engines .",
    [Span(1, 2, "Thing"), Span(3, 4, "Task"), Span(5, 6, "Task"), Span(7, 9, "Thing")],
    [(0, "used-for", 1), (0, "part-of", 3)],
)
SYMMETRIC = _sentence("taggers and parsers", [Span(0, 1, "Thing"), Span(2, 3, "Thing")], [(0, "compare", 1)])
EMPTY = _sentence("", [])

SENTENCES = (NESTED, SAME_SPAN, NO_ENTITY, NO_RELATION, SHARED_SUBJECT, SYMMETRIC, EMPTY)


def examples(sentences: tuple[Sentence, ...] = SENTENCES) -> list[Example]:
    """Return examples of the sentences, without context."""
    return [Example(sentence) for sentence in sentences]


@cache
def _session_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory()  # removed when the interpreter ends


@cache
def small_encoder(folder: str | None = None) -> str:
    """Create a random encoder of width 32 with a small vocabulary, so that long words have several pieces."""
    words = [word for sentence in SENTENCES for word in sentence.words]
    target = Path(folder) if folder is not None else Path(_session_folder().name) / "encoder"
    return create_encoder(words, target, width=32, n_layers=1, n_heads=2, vocabulary=70, dropout=0.0)


# Random models find far more than trained ones, so that limits are off and overlapping entities are kept unless a test
# sets them.
_MANY = 1_000_000
NO_LIMITS = SearchLimits(_MANY, _MANY, _MANY, _MANY, _MANY)
_CREATED: dict[str, Model] = {}


def small_model(
    fusion: str | tuple[str, str] = "swift",
    sequence_encoder: str = "srn",
    *,
    schema: Schema = SCHEMA,
    folder: str | None = None,
    seed: int = 0,
    **settings: Any,
) -> Model:
    """Create a model in evaluation mode, without dropout unless it is given.

    ``fusion`` is a preset or (entities, subject). The encoder is written to ``folder``, or once per session.
    """
    axes = {"preset": fusion} if isinstance(fusion, str) else {"entities": fusion[0], "subject": fusion[1]}
    encoder = settings.pop("encoder", {})
    chosen = ModelSettings(
        encoder=EncoderSettings(small_encoder(folder), **encoder),
        fusion=FusionSettings.from_dict({**axes, "tag_width": 4, "max_distance": 3}),
        sequence_encoder=sequence_encoder,
        **{"hidden_width": 6, "matcher_width": 10, "dropout": 0.0, "limits": NO_LIMITS, "overlaps": "all", **settings},
    )
    key = repr((chosen, schema, seed))
    if key not in _CREATED:
        _CREATED[key] = Model.create(chosen, schema, seed=seed)
        _CREATED[key].network.eval()
    # A copy takes a third of the time of a new model.
    return replace(_CREATED[key], network=deepcopy(_CREATED[key].network))


def insert_markers(
    markers: Markers, row: Row, entities: Sequence[Span] = (), subject: tuple[int, int] | None = None
) -> Row:
    """Return one row with markers around entities and around a subject, a ``[start, end)`` pair of words."""
    around = markers.around_entities([entities])
    if subject is not None:
        around = np.concatenate((around, markers.around_subjects(np.array([(0, *subject)]))))
    return markers.insert_all([row], around)[0]


def spread_probabilities(model: Model, *, seed: int = 0) -> Model:
    """Give the heads new weights, so that probabilities are spread over [0, 1] and depend on the words."""
    generator = torch.Generator().manual_seed(seed)
    turns = model.cascade.relations
    heads = [model.cascade.entity_head] + ([] if turns is None else [turns.subject_head, turns.object_head])
    with torch.no_grad():
        for head in heads:
            matcher = head.matcher
            layers = [head.start, head.end]
            layers += [matcher.start, matcher.last] if isinstance(matcher, LinearMatcher) else [matcher.output]
            for layer in layers:
                layer.weight.copy_(torch.randn(layer.weight.shape, generator=generator) * 1.5)
                if layer.bias is not None:
                    layer.bias.copy_(torch.randn(layer.bias.shape, generator=generator) * 0.2)
    return model


def without_unrelated(sentence: Sentence, thresholds: Thresholds) -> Sentence:
    """Drop the entities below their threshold that have no relation: a reference for the threshold ``related``."""
    ends = {end for triple in sentence.triples for end in (triple.head, triple.tail)}
    certain = [e for e in sentence.entities if e.score >= thresholds.entity_types.get(e.label, thresholds.entity)]
    return sentence.annotated([e for e in sentence.entities if e in ends or e in certain], sentence.triples)


def dense_match(head: SpanExtractor, words: Tensor) -> Tensor:
    """Compute the logits of the matcher for all pairs of words, from their concatenated vectors.

    Shapes: words (n_words, width); returns (n_words, n_words, n_labels), by start and then by last word
    """
    matcher = head.matcher
    n_words = words.shape[0]
    joined = torch.cat((words[:, None].expand(-1, n_words, -1), words[None].expand(n_words, -1, -1)), dim=-1)
    weight = torch.cat((matcher.start.weight, matcher.last.weight), dim=1)
    hidden = torch.nn.functional.linear(joined, weight, matcher.start.bias)
    if isinstance(matcher, LinearMatcher):
        return hidden
    normal = torch.nn.functional.layer_norm(
        hidden, hidden.shape[-1:], matcher.norm.weight, matcher.norm.bias, matcher.norm.eps
    )
    return torch.nn.functional.linear(torch.nn.functional.gelu(normal), matcher.output.weight, matcher.output.bias)
