"""YAML as recipes use it, and settings changed by dotted keys."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import yaml

from cascade_srn.config import FusionSettings, Settings
from cascade_srn.errors import ConfigError, did_you_mean


class _Loader(yaml.SafeLoader):
    """Safe YAML that reads 1e-5 as the number it is, and refuses a key that is given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = key_node.value
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is given twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


# YAML 1.1 wants a point and a sign in the exponent; everybody else, YAML 1.2 included, does not.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def parse_yaml(text: str, where: str) -> Any:
    """Parse text as YAML; ``where`` names its source in messages."""
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error)
        raise ConfigError(f"{where} is not valid YAML{place} ({problem}); mend it there") from error


def apply_override(values: Mapping[str, Any], override: str, settings: type[Settings]) -> dict[str, Any]:
    """The values with one of them changed by ``dotted.key=value``, the value being YAML."""
    key, equals, text = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise ConfigError(f"the override {override!r} is not of the form key=value, as in training.epochs=5")
    where = f"the override {override!r}"
    value = parse_yaml(text, where)
    check_keys(_nested(parts, value), settings, where)
    changed = deepcopy(dict(values))
    section: Any = changed
    kind: type[Settings] | None = settings
    for at, part in enumerate(parts[:-1]):
        kind = settings_of(kind, part)
        if section.get(part) is None:
            section[part] = {}
        if kind is not None and issubclass(kind, FusionSettings) and isinstance(section[part], str):
            section[part] = {"preset": section[part]}
        section = section[part]
        if not isinstance(section, dict):
            raise ConfigError(
                f"{where} goes into {'.'.join(parts[: at + 1])!r}, which the recipe gives as {section!r}; "
                "override that as a whole"
            )
    section[parts[-1]] = value
    return changed


def check_keys(values: Any, settings: type[Settings], where: str) -> None:
    """Refuse unknown keys, naming them and the ones that were probably meant with all their dots."""
    for path, known in _unknown(values, settings, ()):
        received = ".".join(path)
        # A key of the same section, or the same last part in another one, or whatever is close.
        everywhere = list(dotted_keys(settings))
        same_ending = [key for key in everywhere if key.rpartition(".")[2] == path[-1]]
        if len(same_ending) == 1:
            hint = f"Did you mean {same_ending[0]!r}?"
        else:
            hint = did_you_mean(received, [".".join((*path[:-1], name)) for name in known])
        raise ConfigError(
            f"{where} has no setting {received!r}. {hint}"
            if "override" not in where
            else f"{where} names {received!r}, which is no setting. {hint}"
        )


def dotted_keys(settings: type[Settings], prefix: str = "") -> Iterator[str]:
    """All keys of some settings and of those within them."""
    for f in dataclasses.fields(settings):
        yield f"{prefix}{f.name}"
        inner = settings_of(settings, f.name)
        if inner is not None:
            yield from dotted_keys(inner, f"{prefix}{f.name}.")


def settings_of(settings: type[Settings] | None, name: str) -> type[Settings] | None:
    """The class of the settings that a field holds, if it holds any."""
    hint = None if settings is None else get_type_hints(settings).get(name)
    options = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    return next((o for o in options if isinstance(o, type) and issubclass(o, Settings)), None)


def _unknown(
    values: Any, settings: type[Settings], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Unknown keys with the known ones beside them."""
    if not isinstance(values, Mapping):
        return
    known = [f.name for f in dataclasses.fields(settings)]
    if issubclass(settings, FusionSettings):
        known.append("preset")
    for key, value in values.items():
        name = str(key)
        if name not in known:
            yield (*path, name), known
            continue
        inner = settings_of(settings, name)
        if inner is not None:
            yield from _unknown(value, inner, (*path, name))


def _nested(parts: list[str], value: Any) -> Any:
    for part in reversed(parts):
        value = {part: value}
    return value
