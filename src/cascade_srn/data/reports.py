"""What a reader left out or changed: counted by kind, with the first few examples of each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from cascade_srn.errors import shown
from cascade_srn.types import Document

EXAMPLES_KEPT = 3

# What published corpora hold besides entities and relations; that it is not read surprises nobody.
_BESIDES = ("clusters", "events", "event_clusters", "dataset", "weight", "orig_id", "section_starts")


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the input something stands: the file, the line or record in it, the document's id."""

    file: str
    where: str = ""
    document: str = ""

    def __str__(self) -> str:
        parts = [self.file, self.where, f"document {shown(self.document)}" if self.document else ""]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One thing that was skipped or noted: where it stands, in which field, and the value there."""

    place: Place
    field: str
    value: str

    def __str__(self) -> str:
        named = f"{self.field} = {self.value}" if self.field else self.value
        return f"{self.place}: {named}"


@dataclass
class ReadReport:
    """The account of one pass over the input.

    ``skipped`` counts what was left out (only with ``strict=False``), ``noted`` what was read but is worth
    knowing: repeated relations, spans aligned outward, fields and lines of kinds that are not represented.
    Both map a kind, such as ``"entity: index out of range"``, to how often it occurred.
    """

    documents: int = 0
    sentences: int = 0
    entities: int = 0
    relations: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    noted: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[Occurrence]] = field(default_factory=dict)

    @property
    def n_skipped(self) -> int:
        """How many things were left out, of all kinds together."""
        return self.skipped.total()

    def skip(self, kind: str, example: Occurrence) -> None:
        """Count something that was left out."""
        self.skipped[kind] += 1
        self._keep(kind, example)

    def note(self, kind: str, example: Occurrence) -> None:
        """Count something that was read and is worth knowing."""
        self.noted[kind] += 1
        self._keep(kind, example)

    def count(self, document: Document) -> None:
        """Count a document that was read, with what it holds."""
        self.documents += 1
        self.sentences += len(document.sentences)
        self.entities += sum(len(sentence.entities) for sentence in document.sentences)
        self.relations += sum(len(sentence.triples) for sentence in document.sentences)

    def _keep(self, kind: str, example: Occurrence) -> None:
        kept = self.examples.setdefault(kind, [])
        if len(kept) < EXAMPLES_KEPT:
            kept.append(example)

    def __str__(self) -> str:
        lines = [
            f"read {self.documents} documents, {self.sentences} sentences, {self.entities} entities, "
            f"{self.relations} relations; skipped {self.n_skipped}, noted {self.noted.total()}"
        ]
        for heading, counts in (("skipped", self.skipped), ("noted", self.noted)):
            for kind, count in counts.most_common():
                first = self.examples[kind][0]
                lines.append(f"  {heading} {count} x {kind} (first: {first})")
        return "\n".join(lines)


# A note: an entity's offsets fell within words, and ``align`` took all of them.
OUTWARD = "entity aligned outward to whole words"


def may_be_missed(kind: str) -> bool:
    """Whether a note tells of something that was not read and may have been meant to be, a misspelt field for one."""
    return kind.endswith(" not read") and kind not in {f"field {shown(name)} not read" for name in _BESIDES}
