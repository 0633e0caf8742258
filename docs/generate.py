"""Parts of the documentation that are generated from the package.

A page contains ``<!-- generate: NAME -->`` where the part is inserted.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from types import UnionType
from typing import Any, get_args, get_type_hints

_MARKER = re.compile(r"<!-- generate: ([\w-]+) -->")
_LINK_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]*\)")
_SECTION = re.compile(r"^(?:Args|Attributes):\n((?:[ ]{4}.*\n|\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^[ ]{4}(\w+):((?:.*\n)(?:[ ]{8}.*\n|\n)*)", re.MULTILINE)
_ROLE = re.compile(r":\w+:`~?(?:[\w.]+\.)?(\w+)`")


def prepare(source: str) -> str:
    """Insert the generated parts of a page, and replace links to files outside ``docs`` by their text."""
    source = _MARKER.sub(lambda match: PARTS[match[1]](), source)
    return _LINK_OUTSIDE.sub(r"\1", source)


def command_line() -> str:
    """Describe every command with its arguments and options."""
    from typer.main import get_command

    from cascade_srn.cli import app

    return "\n\n".join(_describe_commands(get_command(app), "cascade-srn"))


def _describe_commands(group: Any, prefix: str) -> Iterator[str]:
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from _describe_commands(command, f"{prefix} {name}")
            continue
        yield f"## {prefix} {name}"
        yield _escape(inspect.cleandoc(command.help or ""))
        params = [param for param in command.params if param.name != "help"]
        arguments = [param.metavar or param.name for param in params if param.param_type_name == "argument"]
        yield "```text\n" + " ".join([prefix, name, *map(str, arguments), "[OPTIONS]"]) + "\n```"
        yield _table(("argument or option", "default", "description"), [_describe_parameter(p) for p in params])


def _describe_parameter(param: Any) -> tuple[str, str, str]:
    if param.param_type_name == "argument":
        name = f"`{param.metavar or param.name}`"
    else:
        metavar = f" {param.metavar}" if param.metavar else ""
        name = ", ".join(f"`{each}{metavar}`" for each in [*param.opts, *param.secondary_opts])
    shown = param.show_default if isinstance(param.show_default, str) else param.default
    if param.required:
        default = "required"
    elif shown in (None, "", False) or getattr(param, "is_flag", False) or shown == ():
        default = ""
    else:
        default = f"`{shown}`"
    return name, default, param.help or ""


def settings() -> str:
    """List every setting of a recipe and of the other settings classes."""
    from cascade_srn.apps.web.settings import ServeSettings
    from cascade_srn.training.adapt import AdaptSettings
    from cascade_srn.training.distil import LabelSettings
    from cascade_srn.training.recipe import Recipe

    parts = ["## Recipe"]
    hints = get_type_hints(Recipe)
    simple = []
    for field in dataclasses.fields(Recipe):
        section = _settings_class(hints[field.name])
        if section is None:
            simple.append(_describe_setting(field, hints[field.name], _attributes(Recipe), ""))
        else:
            parts += [f"### {field.name}", *_describe_settings(section, f"{field.name}.")]
    parts.insert(1, _table(_COLUMNS, simple))
    for title, cls in (
        ("cascade-srn adapt", AdaptSettings),
        ("cascade-srn distil", LabelSettings),
        ("cascade-srn serve", ServeSettings),
    ):
        parts += [f"## {title}", *_describe_settings(cls, "")]
    return "\n\n".join(parts)


_COLUMNS = ("setting", "type", "default", "meaning")


def _describe_settings(cls: type, prefix: str) -> list[str]:
    return [f"`{cls.__module__}.{cls.__qualname__}`", _table(_COLUMNS, list(_setting_rows(cls, prefix)))]


def _setting_rows(cls: type, prefix: str) -> Iterator[tuple[str, ...]]:
    """Yield a row for each setting; nested settings have dotted names."""
    hints, meanings = get_type_hints(cls), _attributes(cls)
    for field in dataclasses.fields(cls):
        nested = _settings_class(hints[field.name])
        if nested is None:
            yield _describe_setting(field, hints[field.name], meanings, prefix)
        else:
            yield from _setting_rows(nested, f"{prefix}{field.name}.")


def _describe_setting(field: Any, hint: Any, meanings: dict[str, str], prefix: str) -> tuple[str, ...]:
    if field.default is not dataclasses.MISSING:
        default = f"`{field.default!r}`"
    elif field.default_factory is not dataclasses.MISSING:
        default = f"`{field.default_factory()!r}`"
    else:
        default = "required"
    return f"`{prefix}{field.name}`", f"`{_type_name(hint)}`", default, meanings.get(field.name, "")


def _settings_class(hint: Any) -> type | None:
    """Return the settings class of a field, or None if the field is a plain value."""
    options = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return next((option for option in options if dataclasses.is_dataclass(option)), None)


def _type_name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)


def _attributes(cls: type) -> dict[str, str]:
    """Return the entries of the ``Attributes`` or ``Args`` section of a docstring."""
    text = inspect.cleandoc(cls.__doc__ or "") + "\n"
    found = {}
    for section in _SECTION.findall(text):
        for name, meaning in _ENTRY.findall(section):
            found[name] = " ".join(_ROLE.sub(r"`\1`", meaning).replace("``", "`").split())
    return found


def http() -> str:
    """List every operation of the service, with the fields of requests and answers."""
    from cascade_srn.apps.service.app import create_app

    def load() -> Any:
        raise AssertionError("the service is not started")

    schema = create_app(load).openapi()
    rows = []
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            codes = ", ".join(f"`{code}`" for code in operation["responses"])
            about = operation.get("description") or operation.get("summary", "")
            rows.append((f"`{method.upper()} {path}`", " ".join(about.split()), codes))
    parts = ["## Operations", _table(("operation", "description", "status codes"), rows)]
    parts.append("## Objects")
    for name, described in sorted(schema["components"]["schemas"].items()):
        if "properties" in described:
            required = described.get("required", ())
            fields = [
                (f"`{key}`", _json_type(value), "yes" if key in required else "", value.get("description", ""))
                for key, value in described["properties"].items()
            ]
            parts += [f"### {name}", _table(("field", "type", "required", "description"), fields)]
    return "\n\n".join(parts)


def _json_type(value: dict[str, Any]) -> str:
    if "$ref" in value:
        return f"`{value['$ref'].rpartition('/')[2]}`"
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(_json_type(option) for option in value["anyOf"]))
    if value.get("type") == "array" and value.get("items"):
        return f"list of {_json_type(value['items'])}"
    return f"`{value['type']}`" if "type" in value else "any"


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    if rows and not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    lines = [columns, ("---",) * len(columns), *rows]
    return "\n".join("| " + " | ".join(_escape(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def _escape(text: str) -> str:
    """Escape characters outside code that Markdown would interpret."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()) if "\n\n" not in text else text)
    return "".join(part if part.startswith("`") else re.sub(r"([*<_])", r"\\\1", part) for part in parts)


PARTS: dict[str, Callable[[], str]] = {"command-line": command_line, "settings": settings, "http": http}
