"""Settings of a graph, and the report of a build."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from cascade_srn.config import Settings, require_range
from cascade_srn.errors import ConfigError

# Used where the model does not say: the relation types of SciERC.
SYMMETRIC = ("COMPARE", "CONJUNCTION")
ACYCLIC = ("HYPONYM-OF", "PART-OF")


@dataclass(frozen=True)
class GraphSettings(Settings):
    """How documents become a graph.

    Attributes:
        text: Merge forms that differ in case, hyphens, spaces, plural, determiner or British spelling.
        types: Merge mentions of the same text with different types. The type of a node is decided by a vote.
        heads: Merge "BERT model" with "BERT" and "SQuAD dataset" with "SQuAD".
        acronyms: Merge acronyms with the long forms that documents define for them.
        fuzzy: Merge misspelled and inflected forms.
        fuzzy_threshold: Minimum similarity of a fuzzy match, from 0 to 1.
        generic: Keep pronouns and mentions such as "this method" as nodes.
        generic_labels: Entity types whose mentions are left out, unless ``generic``.
        coreference: Add generic mentions to the nodes that the coreference clusters of JSON lines lead to.
        aliases: File of aliases (docs/graph.md).
        merges: File of forms to merge, whatever the steps say.
        splits: File of forms to keep apart, whatever the steps say.
        schema: File with the label set, or folder of the model, which says what is symmetric and acyclic.
        symmetric: Relation types without a direction. None: those of the schema, or COMPARE and CONJUNCTION.
        acyclic: Relation types whose cycles are flagged. None: those of the schema, PART-OF and HYPONYM-OF.
        min_score: Leave out relations with a lower score.
        min_count: Leave out edges with fewer relations.
        date_field: Column or field of the documents with their date; ``id`` for the name of the document.
        date_pattern: Regular expression that finds the date in that field. Its first group counts, if it has one.
        title_field: Column or field of the documents with their title.
    """

    text: bool = True
    types: bool = True
    heads: bool = True
    acronyms: bool = True
    fuzzy: bool = True
    fuzzy_threshold: float = 0.9
    generic: bool = False
    generic_labels: tuple[str, ...] = ("Generic",)
    coreference: bool = False
    aliases: str | None = None
    merges: str | None = None
    splits: str | None = None
    schema: str | None = None
    symmetric: tuple[str, ...] | None = None
    acyclic: tuple[str, ...] | None = None
    min_score: float = 0.0
    min_count: int = 1
    date_field: str | None = None
    date_pattern: str | None = None
    title_field: str | None = None

    def __post_init__(self) -> None:
        require_range("fuzzy_threshold", self.fuzzy_threshold, 0.5, 1, option="fuzzy_threshold")
        require_range("min_score", self.min_score, 0, 1, option="min_score")
        require_range("min_count", self.min_count, 1, option="min_count")
        if self.date_pattern is None:
            return
        if self.date_field is None:
            raise ConfigError("a date_pattern needs a date_field", "Name the field", option="date_field")
        try:
            re.compile(self.date_pattern)
        except re.error as error:
            problem = f"date_pattern is {self.date_pattern!r}, which is no regular expression ({error})"
            raise ConfigError(problem, "Correct it", option="date_pattern") from error


@dataclass(frozen=True)
class GraphReport:
    """What a build has found.

    Attributes:
        folder: Folder of the graph.
        counts: Number of rows by table.
        dropped: Number of mentions and relations that are not in the graph, by reason.
        merges: Number of merges by step.
        flags: Number of edges by flag.
        notes: What the user should know, such as entries of files that match nothing.
    """

    folder: str
    counts: dict[str, int]
    dropped: dict[str, int]
    merges: dict[str, int]
    flags: dict[str, int]
    notes: tuple[str, ...] = field(default=())
