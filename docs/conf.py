"""Configuration of the documentation site. Build it with ``make docs``."""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent / "src")]

import generate  # noqa: E402

from cascade_srn.version import __version__  # noqa: E402

project = "cascade-srn"
copyright = "the authors of cascade-srn, Apache-2.0"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["pictures"]
# Examples of JSON and YAML are shortened by an ellipsis, which their lexers reject.
suppress_warnings = ["misc.highlighting_failure"]
highlight_language = "text"

myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"cascade-srn {version}"
html_copy_source = False
html_extra_path = ["document.schema.json"]
html_show_sphinx = False


def setup(app):
    """Register the generated parts of the pages."""
    app.connect("source-read", lambda _, docname, source: source.__setitem__(0, generate.prepare(source[0])))
