"""Annotations in fields that a format does not read: an error if they are all that a file has."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cascade_srn.errors import DataError
from cascade_srn.formats.reports import KNOWN_FIELDS


def _is_offsets(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 3 and all(isinstance(bound, int) for bound in item[:2])


def _is_span(item: Any) -> bool:
    return isinstance(item, dict) and {"start", "end", "label"} <= item.keys()


def _is_triple(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 3 and all(isinstance(part, str) for part in item)


# Programs and corpora by the first item of a field. The most certain ones come first.
_ORIGINS: tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...] = (
    (("label", "labels"), _is_offsets, "doccano"),
    (("spans",), _is_span, "prodigy"),
    (("annotations", "predictions", "completions"), lambda item: isinstance(item, dict), "label-studio"),
    (("triple_list", "triples", "relations", "spo_list"), _is_triple, "triples"),
    (("predicted_ner", "predicted_relations"), lambda item: isinstance(item, list), "predictions of DyGIE++"),
    (("entityMentions", "relationMentions"), lambda item: isinstance(item, dict), "triples"),
)


@dataclass
class UnreadLists:
    """Lists of objects or lists in fields that are not read: number of records, and the first item, by field."""

    counts: dict[str, int] = field(default_factory=dict)
    items: dict[str, Any] = field(default_factory=dict)

    def add(self, record: Mapping[str, Any], name: str) -> None:
        """Count a field of a record. Lists of strings or numbers, such as keywords, are no annotations."""
        value = record[name]
        if name in KNOWN_FIELDS or not isinstance(value, list) or not all(isinstance(v, list | dict) for v in value):
            return
        self.counts[name] = self.counts.get(name, 0) + 1
        if value:
            self.items.setdefault(name, value[0])

    def check(self, path: object, n_records: int, formats: Sequence[str]) -> None:
        """Raise an error if all records have such a field. The caller has found no annotation in other fields."""
        names = [name for name in self.items if self.counts[name] == n_records]
        if not names:
            return
        for fields, fits, origin in _ORIGINS:
            for name in names:
                if name in fields and fits(self.items[name]):
                    raise _refuse(path, name, origin, formats)
        raise _refuse(path, names[0], "", formats)


def _refuse(path: object, name: str, origin: str, formats: Sequence[str]) -> DataError:
    looks = f"; this looks like {origin}" if origin else ""
    named = f"Name the format {origin!r}" if origin in formats else "Name the format (see Formats in the documentation)"
    return DataError(
        f"{path}: no entity was found, but every record has the field {name!r}, which is not read{looks}",
        f"{named}, or remove the field if it has no annotations",
        option="format",
    )
