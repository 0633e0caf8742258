"""Escape text for XML."""

import re
from xml.sax.saxutils import escape, quoteattr

# XML 1.0 cannot represent other characters, not even as a reference.
_INVALID = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_text(value: object) -> str:
    """Return a value as the text of an XML element. Characters that XML cannot represent are removed."""
    if isinstance(value, bool):
        return "true" if value else "false"
    # A parser would read a carriage return as a line feed.
    return escape(_INVALID.sub("", str(value)), {"\r": "&#13;"})


def to_attribute(value: object) -> str:
    """Return a value as an XML attribute with its quotes. Characters that XML cannot represent are removed."""
    if isinstance(value, bool):
        return '"true"' if value else '"false"'
    return quoteattr(_INVALID.sub("", str(value)))
