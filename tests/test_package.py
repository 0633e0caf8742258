import doctest
import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import cascade_srn


def test_public_names_can_be_imported():
    for name in cascade_srn.__all__:
        assert getattr(cascade_srn, name) is not None
        assert name in dir(cascade_srn)


def test_unknown_name():
    with pytest.raises(AttributeError, match="has no attribute 'Extracter'"):
        cascade_srn.Extracter  # noqa: B018


@pytest.fixture(scope="module")
def extractor():
    return cascade_srn.Extractor.from_pretrained()


@pytest.mark.parametrize(
    "module",
    [
        *(
            "config", "errors", "extractor", "inference.options", "apps.integrations.graphs", "model.card",
            "model.model", "schema",
        ),
        *("text.presplit", "text.segment", "types"),
    ],
)  # fmt: skip
def test_examples_in_docstrings(module, request):
    shared = {"extractor": request.getfixturevalue("extractor")} if module in ("extractor", "model.model") else {}
    failed, attempted = doctest.testmod(import_module(f"cascade_srn.{module}"), extraglobs=shared)
    assert attempted
    assert not failed


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        ("import cascade_srn", ("torch", "transformers")),
        ("from cascade_srn import read_documents, Schema, Document", ("torch", "transformers")),
        # By default, tests/test_imports.py finds this out without importing torch in a new process.
        pytest.param("from cascade_srn import Extractor", ("cascade_srn.training",), marks=pytest.mark.slow),
    ],
)
def test_imports_are_lazy(statement, forbidden):
    code = f"import sys\n{statement}\nprint([n for n in {forbidden!r} if n in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


@pytest.mark.parametrize(("given", "expected"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_command_line_makes_idle_threads_sleep(given, expected):
    code = (
        "import os, sys\nfrom cascade_srn.cli import main\n"
        "try:\n    main(['--version'])\nexcept SystemExit:\n    pass\n"
        "print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment |= {} if given is None else {"OMP_WAIT_POLICY": given}
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert shown.stdout.split()[-2:] == [expected, "False"]


def test_a_plain_install_has_no_torch():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    names = {extra: {re.split(r"[<>=; ]", text)[0] for text in texts} for extra, texts in extras.items()}
    plain = {re.split(r"[<>=; ]", text)[0] for text in project["dependencies"]}
    assert not plain & names["train"]
    assert "torch" in names["train"]
    users = set(names) - {"all", "dev", "test"}
    assert len(names) - 1 <= 10
    assert set(re.findall(r"[a-z]+", extras["all"][0].partition("[")[2])) == users


def test_data_files_are_packaged():
    root = Path(__file__).parents[1]
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    package = root / "src" / "cascade_srn"
    patterns = settings["tool"]["setuptools"]["package-data"]["cascade_srn"]
    packaged = {path for pattern in patterns for path in package.glob(pattern)}
    found = {path for path in package.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    assert package / "models" / "scierc-small" / "model.safetensors" in found
    assert found <= packaged
