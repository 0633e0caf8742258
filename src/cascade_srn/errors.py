"""What users can get wrong, said helpfully: what was received, what was expected, what to do next."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60
_SHORT.maxlevel = 4


class CascadeError(ValueError):
    """Base of every error that is the caller's to mend; its message is one complete sentence or two."""


class AnnotationError(CascadeError):
    """A span, an entity or a relation that contradicts the text it belongs to."""


class DataError(CascadeError):
    """A file or a record that cannot be read as the format it is said to be in."""


class SchemaError(CascadeError):
    """A label set that is not one, or data whose labels it does not hold."""


class ConfigError(CascadeError):
    """A setting that does not exist, has a wrong value, or contradicts another one."""


class ModelError(CascadeError):
    """A model folder that is missing, incomplete, or made for something else."""


class TrainingError(CascadeError):
    """A run among several that did not end well."""


def did_you_mean(received: str, known: Iterable[str]) -> str:
    """A sentence that names the closest known name, or all of them when none is close."""
    names = sorted(known)
    return close_to(received, names).lstrip(". ") or f"Known: {', '.join(names) if names else 'none'}."


def close_to(received: str, known: Iterable[str]) -> str:
    """The end of a sentence that has named all that is known: the closest of it, where anything is close."""
    folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(received.casefold(), folded, n=1, cutoff=0.6)
    return f". Did you mean {folded[close[0]]!r}?" if close else ""


def shown(value: object) -> str:
    """A value as a message quotes it: its ``repr``, cut where it is long."""
    return _SHORT.repr(value)
