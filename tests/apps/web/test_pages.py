"""The files of the three pages fit together: every link, import and element exists, and nothing is inlined."""

import hashlib
import os
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from cascade_srn.apps.web.assets import page_assets

APPS = Path(str(files("cascade_srn.apps")))
VENDOR = APPS / "web" / "vendor"
PAGES = ("service/page", "annotation/page", "graph/explorer/page")
SHARED = "web/shared"
# Paths that are no files of a page: answers of the service, and the other page.
OTHER_PATHS = {"stylesheet.css", "docs", "./", "../", "graph/"}


def read_texts(folder, suffix):
    """Return the texts of the files of a folder by path."""
    return {path: path.read_text("utf-8") for path in sorted((APPS / folder).glob(f"*{suffix}"))}


@pytest.mark.parametrize("folder", [*PAGES, SHARED])
def test_imports_are_relative_paths_of_served_files(folder):
    served = set(page_assets(folder if folder in PAGES else PAGES[0]))
    for path, text in read_texts(folder, ".js").items():
        for imported in re.findall(r'(?:from |import\()"([^"]+)"', text):
            target = (path.parent / imported).resolve().relative_to(APPS)
            assert imported.startswith("."), (path, imported)
            assert f"/{target.as_posix()}" in served, (path, imported)


@pytest.mark.parametrize("page", PAGES)
def test_index(page):
    assets = page_assets(page)
    index = assets["/index.html"].content.decode()
    used = set(re.findall(r'(?:href|src)="([^"#]+)"', index)) - OTHER_PATHS
    assert {f"/{path}" for path in used} <= set(assets)
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|\sstyle=|javascript:", index)


@pytest.mark.parametrize("page", PAGES)
def test_all_elements_that_scripts_look_up_exist(page):
    scripts = "".join(read_texts(page, ".js").values())
    index = (APPS / page / "index.html").read_text("utf-8")
    looked_up = set(re.findall(r'(?:byId|onClick)\("([^"]+)"', scripts))
    # The form for the API key is made by a shared module.
    assert looked_up <= {"key", *re.findall(r'\bid(?:=|: )"([^"]+)"', index + scripts)}


@pytest.mark.parametrize("folder", [*PAGES, SHARED])
def test_no_text_is_parsed_as_html_or_evaluated_and_no_other_site_is_used(folder):
    forbidden = r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|cookie"
    # The annotation page keeps the name of the annotator.
    forbidden += "" if folder == "annotation/page" else "|Storage"
    for suffix in (".js", ".css", ".html"):
        for path, text in read_texts(folder, suffix).items():
            assert set(re.findall(r"https?://[^\s\"')]+", text)) <= {"http://www.w3.org/2000/svg"}, path
            if suffix == ".js":
                assert not re.search(forbidden, text), path


def test_libraries_are_unchanged_and_have_their_licence():
    listed = re.findall(r"^\| `([\w.-]+)` .*\| `([0-9a-f]{64})` \|$", (VENDOR / "README.md").read_text("utf-8"), re.M)
    assert {name for name, _ in listed} == {path.name for path in VENDOR.glob("*.js")}
    for name, checksum in listed:
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == checksum
        assert "Copyright" in (VENDOR / name.replace(".js", ".LICENSE.txt")).read_text("utf-8")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npx") is None or shutil.which("make") is None, reason="needs Node and make")
def test_lint():
    root = Path(__file__).parents[3]
    environment = {**os.environ, "npm_config_offline": "true"}
    check = subprocess.run(["make", "lint-js"], cwd=root, env=environment, capture_output=True, text=True)
    if "ENOTCACHED" in check.stderr:
        pytest.skip("TypeScript or prettier is not installed; run make lint-js once with a network")
    assert check.returncode == 0, check.stdout + check.stderr
