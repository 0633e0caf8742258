"""``tools/structure.py``: the import graph, its circles, and the counting of calls."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tools.structure import CallTracer, find_circles, find_modules, import_graph, package_graph, read_sources

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture
def written(tmp_path):
    """Write the modules of a package ``cascade_srn``, and return them by name."""

    def write(**sources):
        for name, source in {"__init__": "", **sources}.items():
            path = tmp_path / "src" / "cascade_srn" / f"{name.replace('__at__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source, encoding="utf-8")
        return find_modules(tmp_path / "src" / "cascade_srn")

    return write


def _short(graph):
    return {
        name.removeprefix("cascade_srn."): {target.removeprefix("cascade_srn.") for target in targets}
        for name, targets in graph.items()
        if targets
    }


def test_imports_at_the_top_of_a_module(written):
    modules = written(
        a="import os\nimport cascade_srn.b\nfrom cascade_srn.p import name, c\nfrom cascade_srn import b",
        b="try:\n    from cascade_srn.p.c import d\nexcept ImportError:\n    from cascade_srn import p",
        p__at____init__="from . import c\nfrom .. import b",
        p__at__c="from .d import x\nfrom ..a import y",
        p__at__d="class D:\n    from cascade_srn import a\n",
    )
    assert _short(import_graph(modules)) == {
        "a": {"b", "p", "p.c"},
        "b": {"p.c", "p"},
        "p": {"p.c", "b"},
        "p.c": {"p.d", "a"},
        "p.d": {"a"},
    }


@pytest.mark.parametrize("test", ["TYPE_CHECKING", "typing.TYPE_CHECKING"])
def test_imports_for_type_checkers_are_left_out(written, test):
    modules = written(a=f"if {test}:\n    import cascade_srn.b\nelse:\n    import cascade_srn.c", b="", c="")
    for deferred in (False, True):
        assert _short(import_graph(modules, deferred=deferred)) == {"a": {"c"}}


def test_imports_in_functions_are_deferred(written):
    source = (
        "class A:\n    def f(self):\n        if self:\n            with self:\n                import cascade_srn.b"
    )
    modules = written(a=source, b="async def g():\n    from cascade_srn import a")
    assert _short(import_graph(modules)) == {}
    assert _short(import_graph(modules, deferred=True)) == {"a": {"b"}, "b": {"a"}}


@pytest.mark.parametrize(
    ("graph", "circles"),
    [
        ({"a": "b", "b": "c", "c": ""}, []),
        ({"a": "bc", "b": "d", "c": "d", "d": ""}, []),
        ({"a": "b", "b": "a"}, ["ab"]),
        ({"a": "b", "b": "c", "c": "a", "d": "a", "e": "f", "f": "e"}, ["abc", "ef"]),
        ({"a": "bd", "b": "c", "c": "b", "d": "e", "e": "ad"}, ["ade", "bc"]),
    ],
)
def test_circles(graph, circles):
    assert find_circles({name: set(targets) for name, targets in graph.items()}) == list(map(list, circles))


def test_packages_can_form_a_circle_where_modules_do_not():
    graph = {"s.p.a": {"s.q.b"}, "s.q.b": set(), "s.q.c": {"s.p.d"}, "s.p.d": {"s.p.a"}}
    assert find_circles(graph) == []
    assert package_graph(graph) == {"s.p": {"s.q"}, "s.q": {"s.p"}}
    assert find_circles(package_graph(graph)) == [["s.p", "s.q"]]


def test_the_figures_of_a_checkout(written, tmp_path):
    written(a="from cascade_srn.p import b\n" * 60, p__at____init__="", p__at__b="def f():\n    import cascade_srn.a\n")
    assert read_sources(tmp_path) == {
        "source_files": 4, "root_entries": 3, "lines": 62, "code_lines": 1, "test_lines": 0, "short_files": 3,
        "circles": [],
        "circles_with_deferred": [["cascade_srn.a", "cascade_srn.p.b"]],
        "package_circles": [["cascade_srn.a", "cascade_srn.p"]],
    }  # fmt: skip


def test_the_sources_are_read_by_the_standard_library_alone():
    command = [sys.executable, "-I", "-S", str(ROOT / "tools" / "structure.py"), "--static", "--json"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert found == read_sources(ROOT)
    assert found["source_files"] == len(list((ROOT / "src" / "cascade_srn").rglob("*.py")))
    assert found["circles"] == []


def test_calls_are_counted_by_file():
    tracer = CallTracer(Path("/checkout/src/cascade_srn"))
    places = {}
    for name in ("/checkout/src/cascade_srn/a.py", "/checkout/src/cascade_srn/b.py", "/elsewhere/c.py"):
        exec(compile("def f(): return None", name, "exec"), found := {})
        places[Path(name).stem] = found["f"]
    sys.setprofile(tracer)
    for letter in "aabcbacca":
        places[letter]()
    sys.setprofile(None)
    assert tracer.to_dict() == {"files": 2, "changes": 2}
