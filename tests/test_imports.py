import re
from collections import Counter
from pathlib import Path

import pytest
from tools.structure import find_circles, find_modules, import_graph

ROOT = Path(__file__).parents[1]


# From the bottom to the top. A package or root module imports only those that come before it. Applications are listed
# one by one.
ORDER = (
    "version", "errors", "config", "text", "sentence", "types", "schema", "storage", "drawing", "formats",
    "inputs", "runs", "encoder", "network", "inference", "model", "runtime", "extractor", "evaluation",
    "training", "apps.extract", "apps.corpus", "apps.integrations", "apps.web", "apps.graph",
    "apps.annotation", "apps.service", "lab", "cli", "__main__",
)  # fmt: skip
# Applications for users, which only the command line combines.
SIBLINGS = {"apps.graph", "apps.annotation", "apps.service"}


@pytest.fixture(scope="module")
def graph():
    """Imports of every module, those inside functions included."""
    return import_graph(find_modules(ROOT / "src" / "cascade_srn"), deferred=True)


def part(module):
    """Return the package or root module that a module belongs to; empty for the package itself."""
    parts = [*module.split("."), "", ""]
    return f"apps.{parts[2]}".rstrip(".") if parts[1] == "apps" else parts[1]


def test_every_part_has_a_place_in_the_order(graph):
    assert {part(module) for module in graph} - {"", "apps"} == set(ORDER)


def test_imports_run_one_way(graph):
    place = {name: number for number, name in enumerate(ORDER)}
    wrong = [
        f"{importer} imports {imported}"
        for importer, targets in graph.items()
        for imported in targets
        if part(importer) in place and part(imported) in place and place[part(imported)] > place[part(importer)]
    ]
    assert wrong == []


def test_applications_do_not_import_each_other(graph):
    wrong = [
        f"{importer} imports {imported}"
        for importer, targets in graph.items()
        for imported in targets
        if {part(importer), part(imported)} <= SIBLINGS and part(importer) != part(imported)
    ]
    assert wrong == []


def test_there_are_no_circles(graph):
    assert find_circles(graph) == []


def test_inference_loads_neither_training_nor_baselines(graph):
    reached, todo = set(), ["cascade_srn.extractor"]
    while todo:
        module = todo.pop()
        if module not in reached:
            reached.add(module)
            todo += graph[module]
    assert {part(module) for module in reached} & {"training", "evaluation", "apps", "lab"} == set()


def test_no_public_class_name_has_two_meanings():
    files = (ROOT / "src" / "cascade_srn").rglob("*.py")
    names = Counter(name for file in files for name in re.findall(r"^class ([A-Z]\w*)", file.read_text(), re.MULTILINE))
    assert [name for name, number in names.items() if number > 1] == []
