"""The YAML of recipes: safe parsing, overrides of the form ``dotted.key=value``, and checks of the keys."""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import yaml

from cascade_srn.config import FusionSettings, Settings
from cascade_srn.errors import ConfigError, did_you_mean, short_repr

# Limits against hostile files. Recipes need far less.
MAX_CHARACTERS, _MAX_NODES, _MAX_DEPTH, _MAX_DIGITS = 1 << 20, 10_000, 50, 40


class _Loader(yaml.SafeLoader):
    """Safe YAML loader that reads 1e-5 as a number and refuses repeated keys.

    It limits nesting and the number of values after aliases are expanded. A few lines of aliases of aliases can stand
    for billions of values.
    """

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0
        self._n_nodes = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node, and count its values with aliases expanded."""
        event = self.peek_event()
        is_alias = self.check_event(yaml.AliasEvent)
        before = self._n_nodes
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise yaml.composer.ComposerError(None, None, "it is nested too deeply", event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if is_alias:
            if id(node) not in self._sizes:
                problem = f"the alias *{event.anchor} refers to a value that contains it"
                raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
            self._n_nodes += self._sizes[id(node)]
        else:
            self._n_nodes += 1
            self._sizes[id(node)] = self._n_nodes - before
        if self._n_nodes > _MAX_NODES:
            problem = f"it has more than {_MAX_NODES} values after aliases are expanded"
            raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Construct a mapping whose keys are plain and given once."""
        seen = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                problem = "a list or a mapping is used as a key"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            key = key_node.value
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is given twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """Construct an integer of limited length."""
        if len(node.value) > _MAX_DIGITS:
            raise yaml.constructor.ConstructorError(None, None, "the number is too long", node.start_mark)
        return super().construct_yaml_int(node)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
# YAML 1.1 requires a point and a sign in the exponent. YAML 1.2 does not.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)[eE][-+]?\d+$"), list("-+.0123456789")
)


def parse_yaml(text: str, where: str) -> Any:
    """Parse YAML. ``where`` names its source in messages."""
    if len(text) > MAX_CHARACTERS:
        raise ConfigError(f"{where} is longer than {MAX_CHARACTERS} characters", "Keep only the settings")
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error)
        raise ConfigError(f"{where} is not valid YAML{place} ({problem})", "Fix the syntax") from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        # PyYAML raises these for a date that does not exist, or a word with the tag of a number.
        raise ConfigError(f"{where} has a value that does not match its type ({error})", "Put it in quotes") from error


def apply_override(values: Mapping[str, Any], override: str, settings: type[Settings]) -> dict[str, Any]:
    """Return the values with one of them replaced by ``dotted.key=value``. The value is parsed as YAML."""
    key, equals, text = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise ConfigError(f"the override {override!r} has not the form key=value", "Write it like training.epochs=5")
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
                f"{where} sets a part of {'.'.join(parts[: at + 1])!r}, which is {short_repr(section)}",
                "Override the whole value",
            )
    section[parts[-1]] = value
    return changed


def check_keys(values: Any, settings: type[Settings], where: str) -> None:
    """Refuse unknown keys, and suggest the dotted key that was probably meant."""
    for path, known in _unknown(values, settings, ()):
        received = ".".join(path)
        # Suggest the only key with the same last part, or else the most similar key of the section.
        everywhere = list(dotted_keys(settings))
        same_ending = [key for key in everywhere if key.rpartition(".")[2] == path[-1]]
        if len(same_ending) == 1:
            hint = f"Did you mean {same_ending[0]!r}?"
        else:
            hint = did_you_mean(received, [".".join((*path[:-1], name)) for name in known])
        raise ConfigError(f"{where}: there is no setting {received!r}", hint)


def dotted_keys(settings: type[Settings], prefix: str = "") -> Iterator[str]:
    """Yield all keys of a settings class and of the settings in it."""
    for f in dataclasses.fields(settings):
        yield f"{prefix}{f.name}"
        inner = settings_of(settings, f.name)
        if inner is not None:
            yield from dotted_keys(inner, f"{prefix}{f.name}.")


def settings_of(settings: type[Settings] | None, name: str) -> type[Settings] | None:
    """Return the settings class of a field, or None if the field is a plain value."""
    hint = None if settings is None else get_type_hints(settings).get(name)
    options = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    return next((o for o in options if isinstance(o, type) and issubclass(o, Settings)), None)


def _unknown(
    values: Any, settings: type[Settings], path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield the path of each unknown key, with the known keys of its section."""
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
