"""List the wording of all error messages of the package, read from the source.

    python tools/messages.py [--write]

``--write`` updates tests/messages.txt. A test compares the file with the source, so that a change of wording shows up
in one place only.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "messages.txt"
PACKAGE = ROOT / "src" / "cascade_srn"
ENDINGS = ("Error", "Refusal", "Refused", "exceeded", "unavailable", "unprocessable")


def messages() -> str:
    """Return the messages of all modules, one module after the other."""
    blocks = []
    for path in sorted(PACKAGE.rglob("*.py")):
        found = sorted(set(_messages(ast.parse(path.read_text(encoding="utf-8")))))
        if found:
            blocks.append("\n".join([f"# {path.relative_to(PACKAGE).as_posix()}", *found]))
    return "\n\n".join(blocks) + "\n"


def _messages(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (name := _name(node.func)).endswith(ENDINGS):
            given = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg in ("problem", "hint"))]
            texts = [text for value in given if (text := _template(value))]
            if texts:
                yield f"{name}: {' | '.join(texts)}"


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _template(value: ast.expr) -> str:
    """Return a string as it is written, with expressions in braces; empty for anything else."""
    if isinstance(value, ast.Constant):
        return value.value if isinstance(value.value, str) else ""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        return "".join(_template(part) or f"{{{ast.unparse(part)}}}" for part in (value.left, value.right))
    if isinstance(value, ast.JoinedStr):
        parts = []
        for part in value.values:
            if isinstance(part, ast.Constant):
                parts.append(str(part.value))
            elif isinstance(part, ast.FormattedValue):
                parts.append(f"{{{ast.unparse(part.value)}}}")
        return "".join(parts)
    return ""


def main() -> None:
    """Print the messages, or write them to the golden file."""
    parser = argparse.ArgumentParser(description="List the wording of all error messages.")
    parser.add_argument("--write", action="store_true", help="update tests/messages.txt")
    if parser.parse_args().write:
        GOLDEN.write_text(messages(), encoding="utf-8")
    else:
        print(messages(), end="")


if __name__ == "__main__":
    main()
