"""The examples of the page on integrations, and what happens without the libraries."""

import contextlib
import importlib
import io
import re
import sys
from pathlib import Path

import pytest

from cascade_srn.errors import CascadeError

PAGE = Path(__file__).parents[3] / "docs" / "integrations.md"
LIBRARIES = {
    "spacy": "spacy",
    "neo4j_graphrag": "neo4j_graphrag",
    "llama_index": "llama_index.core",
    "langchain": "langchain_community",
}
EXAMPLES = re.findall(
    r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
)


@pytest.mark.slow
@pytest.mark.parametrize(("library", "example"), list(zip(LIBRARIES.values(), EXAMPLES, strict=True)), ids=LIBRARIES)
def test_example_prints_what_is_pasted(library, example):
    pytest.importorskip(library)
    if library == "spacy":
        importlib.import_module("cascade_srn.apps.integrations.spacy")  # the entry point needs an installation
    code, expected = example
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, "integrations.md", "exec"), {})
    score = r"\d\.\d\d"
    assert re.sub(score, "", printed.getvalue()) == re.sub(score, "", expected)
    found, pasted = ([float(each) for each in re.findall(score, text)] for text in (printed.getvalue(), expected))
    assert found == pytest.approx(pasted, abs=0.02)


@pytest.mark.parametrize("module", LIBRARIES)
def test_missing_library_is_reported(module, monkeypatch):
    name = f"cascade_srn.apps.integrations.{module}"
    monkeypatch.delitem(sys.modules, name, raising=False)
    for loaded in [*sys.modules]:
        if loaded.partition(".")[0] == LIBRARIES[module].partition(".")[0]:
            monkeypatch.setitem(sys.modules, loaded, None)
    monkeypatch.setitem(sys.modules, LIBRARIES[module].partition(".")[0], None)
    with pytest.raises(CascadeError, match="pip install"):
        importlib.import_module(name)
