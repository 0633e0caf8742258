"""BioC collections, in XML and JSON: documents of passages, with annotations and relations by id."""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from cascade_srn.errors import DataError
from cascade_srn.formats.base import SCORES, Format, ReadContext
from cascade_srn.formats.files import open_content, open_for_writing, read_head, read_json, to_json
from cascade_srn.formats.json_records import Value, number_values
from cascade_srn.formats.jsonl import index_relations
from cascade_srn.formats.standoff import Link, StandoffEntity, StandoffReader
from cascade_srn.storage.limits import read_limits
from cascade_srn.types import Document

_JSON = re.compile(r'(?<!\\)"passages"\s*:')
# Control characters that XML 1.0 cannot represent.
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def sniff(head: str, path: Path) -> bool:
    """Return whether the text is an XML collection, or a JSON object with documents of passages."""
    head = head.lstrip()
    return _is_xml(head) if head.startswith("<") else head.startswith("{") and _JSON.search(head) is not None


def _is_xml(head: str) -> bool:
    return re.match(r"(?:<\?.*?\?>|<!.*?>|\s)*<(?:collection|document)\b", head, re.DOTALL) is not None


def read(path: Path, context: ReadContext) -> Iterator[Document]:
    """Read the documents of a collection. Messages count documents from 1."""
    is_xml = read_head(path, 4096, context.encoding).lstrip().startswith("<")
    documents = _read_xml(path) if is_xml else _read_json(path, context.encoding)
    return context.read_each(number_values(path, "document", documents), _read_document)


def _read_json(path: Path, encoding: str | None) -> Iterator[Any]:
    collection = read_json(path, encoding)
    if isinstance(collection.raw, dict) and "passages" in collection.raw:
        yield collection.raw
        return
    if not isinstance(collection.raw, dict) or "documents" not in collection.raw:
        raise DataError(
            f"{path} is not a BioC collection, which has a list 'documents'", "Name another format", option="format"
        )
    yield from (item.raw for item in collection.field("documents").items())


def _read_xml(path: Path) -> Iterator[Any]:
    """Yield the documents of an XML file in the form of BioC's JSON."""
    with open_content(path) as handle:
        try:
            n_elements, limits = 0, read_limits()
            for _, element in ElementTree.iterparse(handle):
                n_elements += 1
                limits.check_words(n_elements, path, "elements")
                if element.tag == "document":
                    yield _to_json(element)
                    element.clear()
                    n_elements = 0
        except ElementTree.ParseError as error:
            raise DataError(f"{path} is not valid XML ({error})", "Check that the file is complete") from error


def _to_json(element: ElementTree.Element) -> dict[str, Any]:
    """Return a document, passage, sentence, annotation or relation as its JSON object."""
    made: dict[str, Any] = {"infons": {i.get("key", ""): i.text or "" for i in element.findall("infon")}}
    if "id" in element.attrib:
        made["id"] = element.attrib["id"]
    for name in ("id", "text"):
        if (child := element.find(name)) is not None:
            made[name] = child.text or ""
    if (offset := element.find("offset")) is not None:
        made["offset"] = _integer(offset.text)
    for name in ("passage", "sentence", "annotation", "relation"):
        if children := element.findall(name):
            made[f"{name}s"] = [_to_json(child) for child in children]
    if places := element.findall("location"):
        made["locations"] = [{key: _integer(place.get(key)) for key in ("offset", "length")} for place in places]
    if nodes := element.findall("node"):
        made["nodes"] = [dict(node.attrib) for node in nodes]
    return made


def _integer(text: str | None) -> int | str | None:
    """Return a number as an integer, and other text unchanged, so that the reader refuses it."""
    return int(text) if text is not None and text.strip().isdecimal() else text


def _read_document(record: Value, context: ReadContext) -> Document:
    record = record.with_document_id("id")
    parts = [record]
    for passage in record.get_items("passages"):
        parts += [passage, *passage.get_items("sentences")]
    text = _join_text([part for part in parts[1:] if part.get("text") is not None])
    annotations = [item for part in parts for item in part.get_items("annotations")]
    relations = [item for part in parts for item in part.get_items("relations")]
    return StandoffReader(record, text, context).build(annotations, _read_annotation, relations, _read_relation)


def _join_text(parts: list[Value]) -> str:
    """Return the text of passages at their offsets. Gaps become line breaks, so that passages are not one sentence."""
    text = ""
    for part in parts:
        start = part.field("offset").integer()
        own = part.field("text").string()
        if start < len(text):
            if text[start : start + len(own)] == own:
                continue  # the sentence of a passage that has the text as well
            problem = f"which starts at {start}, before the end of the text before it at {len(text)}"
            raise part.refuse("passages overlap", problem, "Fix the offset, which counts characters")
        text = text.ljust(start, "\n") + own
    return text


def _read_annotation(item: Value) -> StandoffEntity:
    places = item.field("locations").items(1)
    if len(places) > 1:
        raise item.refuse("discontinuous span", "which is not one contiguous span", "Use one span, or skip it")
    start, length = places[0].field("offset").integer(), places[0].field("length").integer()
    text = item.get("text")
    label = item.field("infons").field("type").label()
    return StandoffEntity(
        item.field("id").identifier(), start, start + length, label, None if text is None else text.string()
    )


def _read_relation(item: Value) -> Iterator[Link]:
    nodes = item.field("nodes").items()
    if len(nodes) != 2:
        raise item.refuse("wrong number of nodes", f"which has {len(nodes)} nodes, not two", "Skip it, or split it")
    head, tail = (node.field("refid").identifier() for node in nodes)
    infons = item.field("infons")
    label = infons.get("type") or infons.get("relation type") or infons.field("type")
    yield Link(head, label.label(), tail)


def write(documents: Iterable[Document], path: Path) -> None:
    """Write one passage per document, as JSON if the name ends in ``.json``, else as XML. Words and scores are lost."""
    is_json = ".json" in path.suffixes
    write_one: Callable[[Document], str] = (lambda d: to_json(_to_record(d))) if is_json else _to_xml
    opening, separator, closing = (
        ('{"source": "", "date": "", "key": "", "infons": {}, "documents": [\n', ",\n", "\n]}\n")
        if is_json
        else (
            '<?xml version="1.0" encoding="UTF-8"?>\n<collection><source></source><date></date><key></key>\n',
            "\n",
            "\n</collection>\n",
        )
    )
    with open_for_writing(path) as handle:
        handle.write(opening.encode())
        for number, document in enumerate(documents):
            handle.write(((separator if number else "") + write_one(document)).encode())
        handle.write(closing.encode())


def _to_record(document: Document) -> dict[str, Any]:
    annotations = [
        {
            "id": f"T{number}",
            "infons": {"type": entity.label},
            "text": entity.text,
            "locations": [{"offset": entity.start, "length": entity.end - entity.start}],
        }
        for number, entity in enumerate(document.entities)
    ]
    relations = [
        {
            "id": f"R{number}",
            "infons": {"type": triple.label},
            "nodes": [{"refid": f"T{head}", "role": "head"}, {"refid": f"T{tail}", "role": "tail"}],
        }
        for number, (triple, head, tail) in enumerate(index_relations(document))
    ]
    passage = {
        "offset": 0,
        "infons": {},
        "text": document.text,
        "sentences": [],
        "annotations": annotations,
        "relations": relations,
    }
    return {"id": document.id, "infons": {}, "passages": [passage], "annotations": [], "relations": []}


def _to_xml(document: Document) -> str:
    record = _to_record(document)
    if _NOT_IN_XML.search(to_json(record)):
        raise DataError(
            f"document {document.id!r} has a control character, which XML does not allow", "Write BioC as JSON"
        )
    root = ElementTree.Element("document")
    ElementTree.SubElement(root, "id").text = record["id"]
    passage = ElementTree.SubElement(root, "passage")
    ElementTree.SubElement(passage, "offset").text = "0"
    ElementTree.SubElement(passage, "text").text = document.text
    for item in record["passages"][0]["annotations"]:
        annotation = ElementTree.SubElement(passage, "annotation", id=item["id"])
        ElementTree.SubElement(annotation, "infon", key="type").text = item["infons"]["type"]
        place = {key: str(value) for key, value in item["locations"][0].items()}
        ElementTree.SubElement(annotation, "location", place)
        ElementTree.SubElement(annotation, "text").text = item["text"]
    for item in record["passages"][0]["relations"]:
        relation = ElementTree.SubElement(passage, "relation", id=item["id"])
        ElementTree.SubElement(relation, "infon", key="type").text = item["infons"]["type"]
        for node in item["nodes"]:
            ElementTree.SubElement(relation, "node", node)
    # A carriage return would be read as a line break.
    return ElementTree.tostring(root, encoding="unicode").replace("\r", "&#13;")


BIOC = Format("bioc", (), sniff, read, write, loses=("words and sentences", *SCORES))
