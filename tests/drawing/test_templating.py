import pytest
from jinja2 import UndefinedError

from cascade_srn.drawing.render import as_markup, environment, read_asset


def test_text_is_escaped():
    template = environment().from_string("{{ one }} {{ other }}")
    assert template.render(one="<b>", other=as_markup("<i>")) == "&lt;b&gt; <i>"


def test_undefined_variable_is_an_error():
    with pytest.raises(UndefinedError, match="'missing' is undefined"):
        environment().from_string("{{ missing }}").render()


def test_assets_are_read():
    assert ".drawing .curve" in read_asset("drawing.css")
    assert "noscript" in read_asset("report.js", "cascade_srn.evaluation.report")
