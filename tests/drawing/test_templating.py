"""Templates as package data."""

import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from cascade_srn.drawing.render import as_markup, environment, read_asset

ROOT = Path(__file__).parents[2]


def test_template_files_are_package_data():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["cascade_srn"]
    package = ROOT / "src" / "cascade_srn"
    files = [path.relative_to(package).as_posix() for path in package.rglob("templates/*")]
    assert len(files) >= 8
    for file in files:
        assert any(fnmatch(file, pattern) for pattern in patterns), f"{file} is not among the package data"


def test_text_is_escaped():
    template = environment().from_string("{{ one }} {{ other }}")
    assert template.render(one="<b>", other=as_markup("<i>")) == "&lt;b&gt; <i>"


def test_undefined_variable_is_an_error():
    with pytest.raises(UndefinedError, match="'missing' is undefined"):
        environment().from_string("{{ missing }}").render()


def test_assets_are_read():
    assert ".drawing .curve" in read_asset("drawing.css")
    assert "noscript" in read_asset("report.js", "cascade_srn.evaluation.report")
