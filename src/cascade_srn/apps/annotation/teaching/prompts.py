"""Questions to the teacher: prompts from versioned files, and the JSON schema of the answers.

A prompt is a text file with the places ``{{labels}}``, ``{{form}}`` and ``{{sentence}}``. The files of the package have
a version in their names; a change of wording is a new file, so that stored answers say what was asked.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

from cascade_srn.apps.annotation.annotations import ProjectLabels
from cascade_srn.errors import DataError
from cascade_srn.schema import RelationConstraints

_FOLDER = Path(__file__).parent / "prompts"
DEFAULT_PROMPTS = tuple(_FOLDER / name for name in ("list-v1.txt", "careful-v1.txt"))
_LABELS, _FORM, _SENTENCE = "{{labels}}", "{{form}}", "{{sentence}}"
_MAX_PROMPT_BYTES = 100_000


@dataclass(frozen=True)
class Prompt:
    """A template of a question."""

    name: str  # Name of the file, without the ending
    template: str

    @classmethod
    def read(cls, path: Path) -> Prompt:
        """Read a file.

        Raises:
            DataError: It is not UTF-8 text, too long, or has no place for the labels or the sentence.
        """
        data = path.read_bytes()
        try:
            template = data[:_MAX_PROMPT_BYTES].decode()
        except UnicodeDecodeError:
            raise DataError(f"{path} is not UTF-8 text", "Save it as UTF-8", option="prompt") from None
        if len(data) > _MAX_PROMPT_BYTES:
            raise DataError(f"{path} has {len(data):,} bytes", "Give a shorter prompt", option="prompt")
        for place in (_LABELS, _SENTENCE):
            if place not in template:
                raise DataError(f"{path} has no place {place}", "Write it where the text belongs", option="prompt")
        return cls(path.stem, template)

    def fill(self, labels: ProjectLabels, sentence: str) -> str:
        """Return the question about a sentence."""
        known = self.template.replace(_LABELS, describe_labels(labels)).replace(_FORM, describe_form(labels))
        # Last, because a sentence may contain the names of the other places.
        return known.replace(_SENTENCE, json.dumps(sentence, ensure_ascii=False))


@dataclass(frozen=True)
class Question:
    """What the teacher is asked once."""

    document: str  # Id of the sentence in the project
    sample: int  # Number of the answer for this sentence, from 0
    prompt: str  # Name of the prompt
    text: str  # The whole question
    temperature: float

    @cached_property
    def digest(self) -> bytes:
        """Digest of the text, the temperature and the number of the answer."""
        return blake2b(f"{self.sample}\0{self.temperature}\0{self.text}".encode(), digest_size=16).digest()

    @property
    def n_bytes(self) -> int:
        """Bytes of the text."""
        return len(self.text.encode())

    def key(self, model: str) -> str:
        """Return the name under which the answer of a model is stored. Other prompts or labels give other names."""
        return blake2b(self.digest + model.encode(), digest_size=12).hexdigest()


def make_questions(
    id: str, sentence: str, labels: ProjectLabels, prompts: Sequence[Prompt], n_samples: int, temperature: float
) -> list[Question]:
    """Return the questions about a sentence. Prompts take turns; only repeated ones are asked with a temperature."""
    return [
        Question(
            id,
            sample,
            (prompt := prompts[sample % len(prompts)]).name,
            prompt.fill(labels, sentence),
            temperature if sample >= len(prompts) else 0.0,
        )
        for sample in range(n_samples)
    ]


def describe_labels(labels: ProjectLabels) -> str:
    """Return all labels with definitions, examples and constraints as text."""
    schema, lines = labels.schema, ["Entity types:"]
    lines += [_describe(labels, "entities", label) for label in schema.entity_types]
    if schema.relation_types:
        lines += ["", "Relation types, from head to tail:"]
        lines += [
            _describe(labels, "relations", label) + _describe_constraints(label, labels)
            for label in schema.relation_types
        ]
    return "\n".join(lines)


def _describe(labels: ProjectLabels, kind: str, label: str) -> str:
    definition, examples = labels.define(kind, label), labels.examples.get(kind, {}).get(label, ())
    line = f"- {label}: {definition}" if definition else f"- {label}"
    return f"{line} Examples: {'; '.join(examples)}." if examples else line


def _describe_constraints(label: str, labels: ProjectLabels) -> str:
    given = labels.schema.constraints.get(label, RelationConstraints())
    parts = ["It has no direction."] if label in labels.schema.symmetric else []
    parts += [f"The head is a {' or '.join(given.heads)}."] if given.heads else []
    parts += [f"The tail is a {' or '.join(given.tails)}."] if given.tails else []
    parts += [f"Only from {', '.join(f'{h} to {t}' for h, t in given.pairs)}."] if given.pairs else []
    return " ".join(["", *parts])


def describe_form(labels: ProjectLabels) -> str:
    """Return an example of an answer, which servers without JSON schemas need."""
    schema = labels.schema
    form: dict[str, Any] = {"entities": [{"id": "e1", "quote": "words", "type": schema.entity_types[0]}]}
    if schema.relation_types:
        form["relations"] = [{"head": "e1", "type": schema.relation_types[0], "tail": "e2"}]
    return json.dumps(form, ensure_ascii=False)


def answer_schema(labels: ProjectLabels) -> dict[str, Any]:
    """Return the JSON schema of an answer."""
    text = {"type": "string"}
    kinds = {"entities": _list_of(id=text, quote=text, type=_one_of(labels.schema.entity_types))}
    if labels.schema.relation_types:
        kinds["relations"] = _list_of(head=text, type=_one_of(labels.schema.relation_types), tail=text)
    return _object(kinds)


def _one_of(names: Sequence[str]) -> dict[str, Any]:
    return {"type": "string", "enum": list(names)}


def _list_of(**fields: Any) -> dict[str, Any]:
    return {"type": "array", "items": _object(fields)}


def _object(fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
