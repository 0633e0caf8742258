"""A strict HTML parser for tests. Unbalanced tags are errors."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input", "wbr"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    @property
    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def all(self, tag: str = "", css: str = "") -> list[Element]:
        """Return this element and its descendants with a tag and a class."""
        found = [self] if (not tag or self.tag == tag) and (not css or css in self.classes) else []
        for child in self.children:
            if isinstance(child, Element):
                found += child.all(tag, css)
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute of <{tag}> is given twice: {names}"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open[-1].tag == tag, f"</{tag}> at {self.getpos()} closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data):
        self.open[-1].children.append(data)


def read_markup(html: str) -> Element:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert len(reader.open) == 1, f"<{reader.open[-1].tag}> is not closed"
    ids = [element.attributes["id"] for element in reader.root.all() if "id" in element.attributes]
    assert len(ids) == len(set(ids)), "an id is given twice"
    return reader.root


def assert_no_network(html: str) -> None:
    """Assert that a page refers to nothing outside of it."""
    root = read_markup(html)
    for element in root.all():
        assert element.tag not in {"link", "img", "iframe", "object", "embed", "base", "audio", "video"}
        for name in ("src", "srcset", "href", "xlink:href", "action", "poster", "data"):
            assert element.attributes.get(name, "#").startswith("#"), f"<{element.tag} {name}> leads out of the page"
        if element.tag == "style":
            assert not re.search(r"url\(|@import|@font-face", element.text)
    policies = [
        element.attributes["content"]
        for element in root.all("meta")
        if element.attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none';")
    assert "http" not in policies[0]
