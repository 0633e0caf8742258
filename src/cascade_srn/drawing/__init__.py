"""Draw sentences and documents as HTML or SVG: entities as bars under the words, relations as arcs above them."""

from cascade_srn.drawing.colours import LabelColours, Mark, Marks
from cascade_srn.drawing.render import draw_document, draw_in_notebook, draw_page, draw_sentence, stylesheet
from cascade_srn.drawing.svg import draw_svg

__all__ = [
    "LabelColours",
    "Mark",
    "Marks",
    "draw_document",
    "draw_in_notebook",
    "draw_page",
    "draw_sentence",
    "draw_svg",
    "stylesheet",
]
