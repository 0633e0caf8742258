"""Print figures on the structure of the package: files, import circles, cost of the import, files per call.

    python tools/structure.py [--root CHECKOUT] [--json] [--static]

Compare two checkouts by running it once for each. ``--static`` reads the sources only, and needs no installed
dependency. Without it, three measurements run in processes of their own:

- ``from cascade_srn import Extractor``: the modules of the package it loads, and its time (median of 3);
- one ``Extractor.extract`` call with a tiny random model: the files of the package whose functions are called (files
  touched), and how often a function is called in another file than the function called before it (changes of file);
- one training step of the same model, from the end of one optimiser step to the end of the next.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = "cascade_srn"
SHORT_FILE = 60
N_IMPORTS = 3

Graph = dict[str, set[str]]


def find_modules(package: Path) -> dict[str, Path]:
    """Return the modules of a package by their full names, ``package.__init__`` under the package's own name."""
    modules = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def import_graph(modules: Mapping[str, Path], *, deferred: bool = False) -> Graph:
    """Return the modules of the package that each module imports.

    An import of a module also runs the packages above it. These are not counted: a package that imports its own
    modules would always be a circle.

    Args:
        modules: The files by module name.
        deferred: Include imports inside functions. Imports for type checkers are always left out.
    """
    graph: Graph = {}
    for name, path in modules.items():
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        is_package = path.name == "__init__.py"
        found = {
            target
            for node in _imports(tree.body, deferred)
            for target in _targets(node, name, is_package, modules)
            if target in modules
        }
        graph[name] = found - {name}
    return graph


def _imports(statements: Iterable[ast.stmt], deferred: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Iterate over import statements, in blocks as well, except under ``if TYPE_CHECKING``."""
    for node in statements:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and _is_type_checking(node.test):
            yield from _imports(node.orelse, deferred)
        elif deferred or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for block in ("body", "orelse", "finalbody"):
                yield from _imports(getattr(node, block, []), deferred)
            for inner in (*getattr(node, "handlers", []), *getattr(node, "cases", [])):
                yield from _imports(inner.body, deferred)


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _targets(
    node: ast.Import | ast.ImportFrom, importer: str, is_package: bool, modules: Mapping[str, Path]
) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        parts = importer.split(".")
        above = parts[: len(parts) - node.level + is_package]
        base = ".".join([*above, *([base] if base else [])])
    for alias in node.names:
        inner = f"{base}.{alias.name}"
        yield inner if inner in modules else base


def find_circles(graph: Graph) -> list[list[str]]:
    """Return the strongly connected components of more than one node, sorted, by Tarjan's algorithm."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    circles = []

    for root in sorted(graph):
        if root in number:
            continue
        number[root] = low[root] = len(number)
        stack.append(root)
        # A stack of our own: chains of imports can be longer than Python's recursion limit.
        path = [(root, iter(sorted(graph[root])))]
        while path:
            node, following = path[-1]
            target = next(following, None)
            if target is None:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == number[node]:
                    at = stack.index(node)
                    component, stack = stack[at:], stack[:at]
                    if len(component) > 1:
                        circles.append(sorted(component))
            elif target not in number:
                number[target] = low[target] = len(number)
                stack.append(target)
                path.append((target, iter(sorted(graph[target]))))
            elif target in stack:
                low[node] = min(low[node], number[target])
    return sorted(circles)


def package_graph(graph: Graph) -> Graph:
    """Merge the modules of each package below the root, such as ``data`` or ``encoder``, into one node."""

    def top(name: str) -> str:
        return ".".join(name.split(".")[:2])

    merged: Graph = {}
    for name, targets in graph.items():
        merged.setdefault(top(name), set()).update(map(top, targets))
    return {name: targets - {name} for name, targets in merged.items()}


def count_code_lines(path: Path) -> int:
    """Return the number of lines with code: no docstrings, comments, blank lines and imports."""
    with tokenize.open(path) as file:
        kinds = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
        tokens = [token for token in tokenize.generate_tokens(file.readline) if token.type not in kinds]
    lines = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        is_text = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            assert isinstance(node, ast.stmt)
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def read_sources(root: Path) -> dict[str, Any]:
    """Return the figures that need nothing but the source files of a checkout."""
    package = root / "src" / PACKAGE
    modules = find_modules(package)
    if not modules:
        raise SystemExit(f"{root} has no package src/{PACKAGE}. Pass the folder of a checkout by --root.")
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in modules.items()}
    all_imports = import_graph(modules, deferred=True)
    return {
        "source_files": len(modules),
        "root_entries": sum(entry.name != "__pycache__" for entry in package.iterdir()),
        "lines": sum(lines.values()),
        "code_lines": sum(map(count_code_lines, modules.values())),
        "test_lines": sum(len(path.read_bytes().splitlines()) for path in (root / "tests").rglob("*.py")),
        "short_files": sum(n < SHORT_FILE for n in lines.values()),
        "circles": find_circles(import_graph(modules)),
        "circles_with_deferred": find_circles(all_imports),
        "package_circles": find_circles(package_graph(all_imports)),
    }


def measure(root: Path) -> dict[str, Any]:
    """Return the figures of the import, of one ``extract`` call and of one training step."""
    imports = [_in_process(root, "import") for _ in range(N_IMPORTS)]
    return {
        "modules_loaded": imports[0]["modules"],
        "import_seconds": round(statistics.median(found["seconds"] for found in imports), 2),
        "extract": _in_process(root, "extract"),
        "training_step": _in_process(root, "train"),
    }


def _in_process(root: Path, probe: str) -> dict[str, Any]:
    environment = os.environ | {"PYTHONPATH": str(root / "src"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--root", str(root), "--probe", probe]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"the measurement {probe!r} failed. Run it with the project's Python.\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


class CallTracer:
    """Counts the files of the package that calls reach, and how often two calls in a row are in different files."""

    def __init__(self, package: Path) -> None:
        self.prefix = f"{package}{os.sep}"
        self.files: set[str] = set()
        self.changes = 0
        self._last: str | None = None

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Take one event of ``sys.setprofile``."""
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(self.prefix):
            return
        self.changes += self._last is not None and file != self._last
        self.files.add(file)
        self._last = file

    def to_dict(self) -> dict[str, int]:
        """Return the counts."""
        return {"files": len(self.files), "changes": self.changes}


def probe_import(package: Path) -> dict[str, Any]:
    """Import the extractor, as a user does first."""
    started = time.perf_counter()
    from cascade_srn import Extractor  # noqa: F401

    seconds = time.perf_counter() - started
    return {"seconds": seconds, "modules": sum(name.split(".")[0] == PACKAGE for name in sys.modules)}


WORDS = ["A", "tagger", "helps", "parsing", "."]


def _tiny_model(package: Path, folder: str) -> Any:
    from cascade_srn import Model, ModelSettings, Schema

    # The function is found by its name, so that checkouts of different layouts can be compared.
    modules = find_modules(package)
    home = next(name for name in modules if "\ndef create_encoder(" in modules[name].read_text(encoding="utf-8"))
    encoder = import_module(home).create_encoder(WORDS, folder, width=32, n_layers=1, n_heads=2, vocabulary=70)
    settings = {"encoder": {"name": encoder}, "hidden_width": 8, "matcher_width": 8}
    return Model.create(ModelSettings.from_dict(settings), Schema(("Task", "Thing"), ("used-for",)))


def _train(model: Any, *, epochs: int) -> None:
    """Train on one sentence with two entities and a relation: three steps per epoch."""
    from cascade_srn import Document, Sentence, Span, TrainingSettings, Triple, train

    tagger, parsing = Span(1, 2, "Thing"), Span(3, 4, "Task")
    sentence = Sentence.from_words(WORDS, [tagger, parsing], [Triple(tagger, "used-for", parsing)])
    documents = [Document.from_sentences([sentence], id=str(number)) for number in range(12)]
    settings = TrainingSettings(epochs=epochs, batch_size=4, learning_rate=1e-2, encoder_learning_rate=1e-3)
    for _ in train(model, documents, settings=settings):
        pass


def probe_extract(package: Path) -> dict[str, Any]:
    """Trace the second ``extract`` call: the first one fills caches."""
    from cascade_srn import Extractor

    with tempfile.TemporaryDirectory() as folder:
        model = _tiny_model(package, folder)
        # An untrained model finds nothing, or far too much, and its number of calls would mean nothing.
        _train(model, epochs=80)
    extractor, tracer, text = Extractor(model), CallTracer(package), " ".join(WORDS)
    extractor.extract(text)
    sys.setprofile(tracer)
    document = extractor.extract(text)
    sys.setprofile(None)
    n_found = len(document.entities), len(document.relations)
    if n_found != (2, 1):
        raise SystemExit(f"{n_found} entities and relations were found, not (2, 1). Train longer in this script.")
    return tracer.to_dict()


def probe_train(package: Path) -> dict[str, Any]:
    """Trace the second of three training steps."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    tracer, n_steps = CallTracer(package), 0

    def step_ends(*_: object) -> None:
        nonlocal n_steps
        n_steps += 1
        sys.setprofile(tracer if n_steps == 1 else None)

    # Batches are collated in a thread, beside the step before. In one thread the calls have a fixed order.
    ThreadPoolExecutor.submit = _submit  # type: ignore[assignment,method-assign]
    with tempfile.TemporaryDirectory() as folder:
        model = _tiny_model(package, folder)
        register_optimizer_step_post_hook(step_ends)
        _train(model, epochs=1)
    if n_steps != 3:
        raise SystemExit(f"{n_steps} training steps were taken, but 3 were expected.")
    return tracer.to_dict()


def _submit(pool: ThreadPoolExecutor, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
    """Run a call at once instead of in a thread."""
    future: Future[Any] = Future()
    try:
        future.set_result(call(*args, **kwargs))
    except Exception as error:
        future.set_exception(error)
    return future


PROBES = {"import": probe_import, "extract": probe_extract, "train": probe_train}


def _probe(name: str, package: Path) -> None:
    found = PROBES[name](package)
    home = Path(sys.modules[PACKAGE].__file__ or "").parent
    if home.resolve() != package:
        raise SystemExit(f"{PACKAGE} was imported from {home}, not from {package}.")
    print(json.dumps(found))


def show(found: Mapping[str, Any]) -> None:
    """Print the figures as lines of text."""
    rows: list[tuple[str, object]] = [
        ("source files", found["source_files"]),
        ("entries at the root of the package", found["root_entries"]),
        ("lines of source", found["lines"]),
        ("lines of code: no docstrings, comments, blanks, imports", found["code_lines"]),
        ("lines of tests", found["test_lines"]),
        (f"files under {SHORT_FILE} lines", found["short_files"]),
        ("import circles", len(found["circles"])),
        ("import circles, imports in functions included", len(found["circles_with_deferred"])),
        ("circles of packages, imports in functions included", len(found["package_circles"])),
    ]
    if "modules_loaded" in found:
        rows.append(("modules loaded by 'from cascade_srn import Extractor'", found["modules_loaded"]))
        rows.append(("seconds of that import, median of 3", found["import_seconds"]))
        for name, key in (("extract call", "extract"), ("training step", "training_step")):
            rows.append((f"files touched by one {name}", found[key]["files"]))
            rows.append((f"changes of file in one {name}", found[key]["changes"]))
    width = max(len(heading) for heading, _ in rows)
    for heading, value in rows:
        print(f"{heading:<{width}}  {value:>8,}" if isinstance(value, int) else f"{heading:<{width}}  {value:>8}")
    for heading, key in (
        ("Import circles", "circles"),
        ("Import circles, imports in functions included", "circles_with_deferred"),
        ("Circles of packages, imports in functions included", "package_circles"),
    ):
        if found[key]:
            print(f"\n{heading}:")
            for circle in found[key]:
                print(f"  {len(circle)}: {', '.join(name.removeprefix(f'{PACKAGE}.') for name in circle)}")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    here = Path(__file__).resolve().parents[1]
    parser.add_argument("--root", type=Path, default=here, help="the checkout (default: the one of this script)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--static", action="store_true", help="read the sources only, run nothing")
    parser.add_argument("--probe", choices=PROBES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    root = options.root.resolve()
    if options.probe:
        _probe(options.probe, root / "src" / PACKAGE)
        return
    found = read_sources(root)
    if not options.static:
        found |= measure(root)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        show(found)


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # so that `| head` ends the tool quietly
    main()
