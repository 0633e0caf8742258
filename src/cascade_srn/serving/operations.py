"""The page at /docs: every operation of the service, made from its OpenAPI description, complete in itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

STYLE = (
    ":root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;"
    "padding:0 1rem}h2{margin-top:2.5rem}code,pre{font-family:ui-monospace,monospace;font-size:.9em}"
    "pre{overflow-x:auto;padding:.75rem;border:1px solid #8886;border-radius:.4rem}"
    "table{border-collapse:collapse}td,th{padding:.2rem .8rem .2rem 0;text-align:left;vertical-align:top}"
)


def operations_page(described: Mapping[str, Any]) -> str:
    """The description as a page to read."""
    info = described["info"]
    parts = [
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>",
        f"<p>{escape(info.get('description', ''))}</p>",
        '<p>For programs: <a href="openapi.json">openapi.json</a>.</p>',
    ]
    for path, methods in described["paths"].items():
        parts += [_operation(path, method, operation) for method, operation in methods.items()]
    parts.append("<h2>Forms</h2>")
    for name, form in described["components"]["schemas"].items():
        parts.append(f'<h3 id="{escape(name)}">{escape(name)}</h3>{_shown(form)}')
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(info['title'])}: operations</title><style>{STYLE}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>"
    )


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> str:
    description = "".join(f"<p>{escape(part)}</p>" for part in operation.get("description", "").split("\n\n") if part)
    body = "".join(
        f"<p>Body: <code>{escape(kind)}</code>, {_link(content['schema'])}</p>"
        for kind, content in operation.get("requestBody", {}).get("content", {}).items()
    )
    rows = "".join(_answer(status, answer) for status, answer in operation["responses"].items())
    return f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2>{description}{body}<table>{rows}</table>"


def _answer(status: str, answer: Mapping[str, Any]) -> str:
    kinds = answer.get("content", {})
    forms = ", ".join(
        f"<code>{escape(kind)}</code> {_link(content.get('schema', {}))}" for kind, content in kinds.items()
    )
    return f"<tr><th>{escape(status)}</th><td>{escape(answer['description'])}</td><td>{forms}</td></tr>"


def _link(schema: Mapping[str, Any]) -> str:
    name = escape(schema.get("$ref", "").rpartition("/")[2])
    return f'<a href="#{name}">{name}</a>' if name else ""


def _shown(form: Mapping[str, Any]) -> str:
    return f"<pre>{escape(json.dumps(form, indent=2, ensure_ascii=False))}</pre>"
