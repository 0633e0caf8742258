"""What a notebook shows of a document."""

from __future__ import annotations

from html import escape

from cascade_srn.drawing.render import draw_document
from cascade_srn.errors import CascadeError
from cascade_srn.types import Document


def draw_in_notebook(document: Document) -> str:
    """A document as HTML for a notebook: drawn, or where it cannot be drawn, why, with the document as text.

    A notebook asks for this by itself, so there is no one to catch an error.
    """
    try:
        return draw_document(document)
    except CascadeError as error:
        return f"<p>{escape(str(error))}</p><pre>{escape(repr(document))}</pre>"
