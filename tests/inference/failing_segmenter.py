"""A segmenter in a module that a worker process imports quickly."""

from cascade_srn.text.presplit import segment_spaces


def fail_on_some(text):
    """Split at lines and spaces, but fail on some texts."""
    if "7" in text:
        raise LookupError(text)
    return segment_spaces(text)
