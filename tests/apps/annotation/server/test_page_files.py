"""The files of the annotation page fit together."""

import re

import pytest

from cascade_srn.apps.annotation.server.app import SHARED
from cascade_srn.apps.web.assets import page_files


@pytest.fixture(scope="module")
def own():
    """The texts of the page's own files by name."""
    return {name: asset.content.decode() for name, asset in page_files("annotation", "page")}


@pytest.fixture(scope="module")
def served(own):
    return {"stylesheet.css", *SHARED, *own}


def test_all_imported_modules_are_served(own, served):
    texts = [text for name, text in own.items() if name.endswith(".js")]
    texts += [asset.content.decode() for name, asset in page_files() if name in SHARED and name.endswith(".js")]
    imported = {name for text in texts for name in re.findall(r'from "\./([^"]+)"', text)}
    assert imported <= served
    assert set(re.findall(r'(?:href|src)="([^"#]+)"', own["index.html"])) <= served


def test_all_elements_that_scripts_look_up_exist(own):
    scripts = "".join(text for name, text in own.items() if name.endswith(".js"))
    looked_up = set(re.findall(r'(?:byId|onClick)\("([^"]+)"', scripts))
    # The form for the API key is made by a shared module.
    made = {"key", *re.findall(r'id="([^"]+)"', own["index.html"]), *re.findall(r'\bid: "([^"]+)"', scripts)}
    assert looked_up <= made


def test_no_inline_scripts(own):
    assert re.findall(r"<script(?![^>]* src=)|\son\w+=|javascript:", own["index.html"]) == []
    scripts = "".join(text for name, text in own.items() if name.endswith(".js"))
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|eval\(", scripts)
