"""Report of a reader: counts of skipped and noted input by kind, with examples."""

from collections import Counter
from dataclasses import dataclass, field

from cascade_srn.errors import short_repr
from cascade_srn.types import Document

EXAMPLES_KEPT = 3
EXPANDED = "entity aligned outward to whole words"
"""Kind of the note about an entity that ``align="expand"`` expanded to whole words."""
MERGED = "entity merged with another one on the same words"
"""Kind of the note about an entity that ``align="expand"`` expanded to the words of another one of its label."""
EXPANDED_MENTION = "mention aligned outward to whole words"
"""The same for a mention of a coreference cluster."""
ESCAPES = "escaped token read as its characters"
"""Kind of the note about a token such as ``-LRB-``, which was read as a bracket."""
LONG_SENTENCE = "sentence of more than 1,000 words, since no blank line ends it"
"""Kind of the note about columns without blank lines."""
WITHOUT_ENTITY = "predicted relation left out, because its head or tail is not a predicted entity"
"""Kind of the note about a prediction that no score can count."""

# Known fields of published corpora, and of selected sentences, that are not read.
KNOWN_FIELDS = ("clusters", "events", "event_clusters", "dataset", "weight", "orig_id", "section_starts", "selection")


@dataclass(frozen=True, slots=True)
class Place:
    """Place in the input: file, line or record, and document id."""

    file: str
    where: str = ""
    document: str = ""

    def __str__(self) -> str:
        parts = [self.file, self.where, f"document {short_repr(self.document)}" if self.document else ""]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Skipped or noted part of the input: its place, field and value."""

    place: Place
    field: str
    value: str

    def __str__(self) -> str:
        named = f"{self.field} = {self.value}" if self.field else self.value
        return f"{self.place}: {named}"


@dataclass
class ReadReport:
    """Report of one pass over the input."""

    documents: int = 0  # Number of documents that were read
    sentences: int = 0  # Number of their sentences
    entities: int = 0  # Number of their entities
    relations: int = 0  # Number of their relations
    clusters: int = 0  # Number of their coreference clusters
    # Number of malformed parts that were skipped, by kind, such as ``"entity: index out of range"``. Empty unless the
    # reader has ``strict=False``.
    skipped: Counter[str] = field(default_factory=Counter)
    # Number of other notes by kind: repeated relations, expanded spans, escaped tokens, and fields that are not read
    noted: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[Occurrence]] = field(default_factory=dict)  # The first occurrences of each kind

    @property
    def n_skipped(self) -> int:
        """Number of skipped parts of all kinds."""
        return self.skipped.total()

    def skip(self, kind: str, example: Occurrence) -> None:
        """Count a skipped part."""
        self.skipped[kind] += 1
        self._keep(kind, example)

    def note(self, kind: str, example: Occurrence) -> None:
        """Count a note."""
        self.noted[kind] += 1
        self._keep(kind, example)

    def count(self, document: Document) -> None:
        """Count a document and its content."""
        self.documents += 1
        self.sentences += len(document.sentences)
        self.entities += sum(len(sentence.entities) for sentence in document.sentences)
        self.relations += sum(len(sentence.triples) for sentence in document.sentences)
        self.clusters += len(document.clusters)

    def _keep(self, kind: str, example: Occurrence) -> None:
        kept = self.examples.setdefault(kind, [])
        if len(kept) < EXAMPLES_KEPT:
            kept.append(example)

    def __str__(self) -> str:
        clusters = f", {self.clusters} coreference clusters" if self.clusters else ""
        lines = [
            f"read {self.documents} documents, {self.sentences} sentences, {self.entities} entities, "
            f"{self.relations} relations{clusters}; skipped {self.n_skipped}, noted {self.noted.total()}"
        ]
        for heading, counts in (("skipped", self.skipped), ("noted", self.noted)):
            for kind, count in counts.most_common():
                first = self.examples[kind][0]
                lines.append(f"  {heading} {count} x {kind} (first: {first})")
        return "\n".join(lines)


@dataclass
class WriteReport:
    """Report of :func:`cascade_srn.formats.registry.write_documents`."""

    format: str  # Name of the format
    documents: int = 0  # Number of documents that were written
    lost: Counter[str] = field(default_factory=Counter)  # Number of things that the format cannot represent, by kind

    def __str__(self) -> str:
        losses = ", ".join(f"{kind} ({count})" for kind, count in self.lost.items())
        end = f"; {self.format} does not hold: {losses}" if losses else ""
        return f"wrote {self.documents} documents{end}"


def may_be_missed(kind: str) -> bool:
    """Return whether a note is about unread input that the user may have meant to be read, such as a misspelt field."""
    return kind.endswith(" not read") and kind not in {f"field {short_repr(name)} not read" for name in KNOWN_FIELDS}
