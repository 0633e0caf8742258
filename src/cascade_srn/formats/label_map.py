"""Rename, merge and drop the labels of documents."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cascade_srn.errors import DataError, did_you_mean, short_repr
from cascade_srn.formats.reports import Occurrence, Place, ReadReport
from cascade_srn.types import Document, Sentence, Span, Triple

_FIELDS = ("entities", "relations", "others")
_OTHERS = ("keep", "drop", "error")


@dataclass(frozen=True)
class LabelMap:
    """New names of labels.

    Example:
        >>> LabelMap({"Meth": "Method", "Material": None}).apply(document)
    """

    # New name of each entity type; None drops its entities and their relations
    entities: Mapping[str, str | None] = field(default_factory=dict)
    # New name of each relation type; None drops its relations
    relations: Mapping[str, str | None] = field(default_factory=dict)
    others: str = "keep"  # What to do with labels that are not listed: "keep", "drop" or "error"
    source: str = "the label map"  # File that the map was read from, for messages

    @classmethod
    def read(cls, path: str | Path) -> "LabelMap":
        """Read a YAML or JSON file with ``entities``, ``relations`` and ``others``."""
        import yaml

        try:
            given = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
            raise DataError(f"the label map {path} cannot be read ({reason})", "Check the file") from error
        if not isinstance(given, dict):
            raise DataError(f"the label map {path} is {short_repr(given)}", f"Give the fields {', '.join(_FIELDS)}")
        for name in given:
            if name not in _FIELDS:
                raise DataError(f"{path}: the field {name!r} is not known", did_you_mean(str(name), _FIELDS))
        others = given.get("others", "keep")
        if others not in _OTHERS:
            raise DataError(f"{path}: others is {others!r}", f"Use one of {', '.join(_OTHERS)}")
        entities, relations = (_check_names(path, kind, given.get(kind) or {}) for kind in _FIELDS[:2])
        return cls(entities, relations, others, str(path))

    def apply(self, document: Document, report: ReadReport | None = None) -> Document:
        """Return a document with the new labels. Entities and relations that become the same are merged."""
        report = report or ReadReport()
        sentences = tuple(self._apply(sentence, document.id, report) for sentence in document.sentences)
        return replace(document, sentences=sentences)

    def _apply(self, sentence: Sentence, id: str, report: ReadReport) -> Sentence:
        place = Place(self.source, document=id)
        spans: dict[Span, Span] = {}
        for span in sentence.entities:
            label = self._new_name("entity", self.entities, span.label, place, report)
            if label is not None:
                spans[span] = replace(span, label=label)
        kept = dict.fromkeys(spans.values())
        if len(kept) < len(spans):
            report.note(
                "entity merged with another by the label map", Occurrence(place, "", str(len(spans) - len(kept)))
            )
        triples: dict[Triple, None] = {}
        for triple in sentence.triples:
            label = self._new_name("relation", self.relations, triple.label, place, report)
            if triple.head not in spans or triple.tail not in spans:
                report.note("relation of a dropped entity left out", Occurrence(place, "", short_repr(triple.label)))
            elif label is not None:
                triples[replace(triple, head=spans[triple.head], label=label, tail=spans[triple.tail])] = None
        return replace(sentence, entities=tuple(kept), triples=tuple(triples))

    def _new_name(
        self, kind: str, names: Mapping[str, str | None], label: str, place: Place, report: ReadReport
    ) -> str | None:
        if label in names:
            new = names[label]
        elif self.others == "error":
            raise DataError(
                f"document {place.document!r} has the {kind} type {label!r}, which {self.source} does not list",
                "Add it, or use 'others: keep'",
            )
        else:
            new = label if self.others == "keep" else None
        if new is None:
            report.note(f"{kind} of type {label!r} dropped by the label map", Occurrence(place, "", repr(label)))
        return new


def read_label_map(path: str | Path | None) -> LabelMap | None:
    """Read a label map if there is one."""
    return None if path is None else LabelMap.read(path)


def _check_names(path: str | Path, kind: str, given: Any) -> dict[str, str | None]:
    if not isinstance(given, dict):
        raise DataError(f"{path}: {kind} is {short_repr(given)}", "Write each label as 'old: new', or 'old: null'")
    names: dict[str, str | None] = {}
    for old, new in given.items():
        if not isinstance(old, str) or not (new is None or (isinstance(new, str) and new.strip())):
            raise DataError(
                f"{path}: {kind} maps {short_repr(old)} to {short_repr(new)}",
                "Write each label as 'old: new', or 'old: null' to drop it",
            )
        names[old] = new
    return names
