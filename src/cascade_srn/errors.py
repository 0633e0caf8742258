"""Errors that the caller can fix. Each has a problem and, in most cases, a hint."""

import difflib
import reprlib
from collections.abc import Iterable
from importlib import import_module
from typing import Any

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60
_SHORT.maxlevel = 4


class CascadeError(ValueError):
    """Base class of all errors that the caller can fix.

    Args:
        problem: What is wrong: a phrase without a final period, such as ``train.json:14: entity [5, 90) ends after
            the sentence (28 words)``.
        hint: What to do about it: a sentence without a final period, such as ``Check the offsets``.
        option: Name of the parameter or setting that the hint is about. The command line shows it as ``--option``.

    Example:
        >>> print(ConfigError("epochs is 0", "Set a number of at least 1", option="epochs"))
        epochs is 0. Set a number of at least 1 (epochs).
    """

    can_skip = False
    """Whether a reader that is not strict leaves out what is wrong."""

    def __init__(self, problem: str, hint: str = "", *, option: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint
        self.option = option

    def __str__(self) -> str:
        return self.message(self.option)

    def message(self, option: str = "") -> str:
        """Join problem and hint to sentences.

        Args:
            option: How to write the option, for example ``--epochs``; empty to leave it out.
        """
        if not self.hint:
            return self.problem
        hint = f"{self.hint} ({option})" if option else self.hint
        return f"{_as_sentence(self.problem)} {_as_sentence(hint)}"


class AnnotationError(CascadeError):
    """A span, entity or relation contradicts the text it belongs to."""


class DataError(CascadeError):
    """A file or record does not follow its format."""


class SchemaError(CascadeError):
    """A label set is invalid, or data has labels that it does not contain."""


class ConfigError(CascadeError):
    """A setting does not exist, has an invalid value or contradicts another setting."""


class ModelError(CascadeError):
    """A model folder is missing, incomplete or of another kind."""


class TrainingError(CascadeError):
    """A training run failed."""


class MissingExtraError(CascadeError):
    """A library that is not part of the plain installation is missing."""


def require(module: str, *, extra: str = "") -> Any:
    """Import and return a module of an extra of this package, or of a library that no extra installs.

    Raises:
        MissingExtraError: The library is not installed.
    """
    library = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != library:
            raise
        wanted = f"'cascade-srn[{extra}]'" if extra else library.replace("_", "-")
        raise MissingExtraError(f"{library} is not installed", f"Run pip install {wanted}") from error


def did_you_mean(received: str, known: Iterable[str]) -> str:
    """Return a hint that suggests the closest known name, or lists all names if none is close.

    Example:
        >>> did_you_mean("swfit", ["early", "swift"])
        "Did you mean 'swift'?"
        >>> did_you_mean("lstm", ["early", "swift"])
        'Known: early, swift'
    """
    names = sorted(known)
    return suggest(received, names) or f"Known: {', '.join(names) if names else 'none'}"


def suggest(received: str, known: Iterable[str]) -> str:
    """Return a hint that suggests the closest known name, or an empty string if none is close."""
    folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(received.casefold(), folded, n=1, cutoff=0.6)
    return f"Did you mean {folded[close[0]]!r}?" if close else ""


def short_repr(value: object) -> str:
    """Return the ``repr`` of a value, shortened if it is long, for use in a message."""
    return _SHORT.repr(value)


def describe_error(error: Exception) -> str:
    """Return the message of an error, with its type if it is not an error of this package."""
    return str(error) if isinstance(error, CascadeError) else f"{type(error).__name__}: {error}"


def _as_sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."
