"""UIMA CAS, the format of INCEpTION: XMI with its type system, or JSON. Needs dkpro-cassis (extra ``formats``).

One file is one document, a folder or ZIP archive has several. Annotations with the features ``Governor`` and
``Dependent`` are relations, those with a string feature or a name of their own are entities; tokens and sentences are
words.
"""

import io
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from cascade_srn.errors import DataError, require
from cascade_srn.formats.base import SCORES, Format, MalformedInput, ReadContext
from cascade_srn.formats.brat import check_id, new_folder
from cascade_srn.formats.files import read_bytes, read_head, replacing
from cascade_srn.formats.json_records import Value
from cascade_srn.formats.jsonl import index_relations
from cascade_srn.formats.reports import Occurrence, Place
from cascade_srn.formats.standoff import Link, StandoffEntity, StandoffReader, group_words
from cascade_srn.storage.archives import open_archive
from cascade_srn.storage.files import files_below, is_hidden
from cascade_srn.types import Document, Offsets

ENTITY, RELATION = "webanno.custom.Entity", "webanno.custom.Relation"
_TOKEN = "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Token"
_SENTENCE = "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Sentence"
# The types of dkpro-cassis' own examples.
_TOKENS, _SENTENCES = (_TOKEN, "cassis.Token"), (_SENTENCE, "cassis.Sentence")
_ANNOTATION = "uima.tcas.Annotation"
_TYPE_SYSTEM = "typesystem.xml"
# Packages of linguistic and technical annotations, which are no entities.
_IGNORED = (
    "uima.",
    "cassis.Token",
    "cassis.Sentence",
    "de.tudarmstadt.ukp.dkpro.core.api.segmentation.",
    "de.tudarmstadt.ukp.dkpro.core.api.metadata.",
    "de.tudarmstadt.ukp.dkpro.core.api.lexmorph.",
    "de.tudarmstadt.ukp.dkpro.core.api.syntax.",
    "de.tudarmstadt.ukp.clarin.webanno.api.type.",
)
# Features that hold the label of an annotation, the first that has a value.
_LABELS = ("label", "value", "Label", "Value", "type", "identifier")


def sniff(head: str, path: Path) -> bool:
    """Return whether a file is XMI, a JSON CAS or an archive of them, or a folder has an XMI file."""
    if path.is_dir():
        first = next(files_below(path, lambda member: _is_document(member.name)), None)
        return first is not None and sniff(read_head(first), first)
    if path.suffix == ".zip":
        if not zipfile.is_zipfile(path):
            return False
        with open_archive(path) as archive:
            return any(map(_is_document, archive.names))
    return path.suffix == ".xmi" or (head.lstrip().startswith("{") and '"%FEATURE_STRUCTURES"' in head)


def _is_document(name: str) -> bool:
    return name.lower().endswith((".xmi", ".json")) and not Path(name).name.startswith(".")


def read(path: Path, context: ReadContext) -> Iterator[Document]:
    """Read the documents of a file, folder or archive, ordered by name."""
    _import()
    for name, data, types in _find_files(path):
        document = context.attempt("document", _read_document, name, data, types, path, context)
        if document is not None:
            yield document


def _import() -> Any:
    return require("cassis", extra="formats")


def _find_files(path: Path) -> Iterator[tuple[str, bytes, bytes | None]]:
    """Yield name, content and type system of each document. A type system serves the files of its folder."""
    if path.suffix == ".zip" and path.is_file():
        yield from _find_members(path)
        return
    if path.is_dir():
        found = files_below(path, lambda member: _is_document(member.name))
        members = sorted(member for member in found if not is_hidden(member, path))
        if not members:
            raise DataError(f"the folder {path} contains no .xmi or .json file", "Pass the folder of an export")
    else:
        members = [path]
    for member in members:
        beside = next((m for m in member.parent.iterdir() if m.name.lower() == _TYPE_SYSTEM), None)
        name = member.relative_to(path).as_posix() if path.is_dir() else member.name
        yield name, read_bytes(member), None if beside is None else read_bytes(beside)


def _find_members(path: Path) -> Iterator[tuple[str, bytes, bytes | None]]:
    with open_archive(path) as archive:
        names = sorted(filter(_is_document, archive.names))
        systems = {str(Path(n).parent): n for n in archive.names if Path(n).name.lower() == _TYPE_SYSTEM}
        if not names:
            raise DataError(f"{path} contains no .xmi or .json file", "Pass the archive of an export")
        read = cache(archive.read)
        for name in names:
            system = systems.get(str(Path(name).parent))
            yield name, archive.read(name), None if system is None else read(system)


def _read_document(name: str, data: bytes, types: bytes | None, path: Path, context: ReadContext) -> Document:
    cassis = _import()
    id = name.rpartition(".")[0]
    place = Place(str(path), "" if path.name == name else name, id)
    try:
        if name.lower().endswith(".xmi"):
            system = cassis.load_typesystem(io.BytesIO(types)) if types is not None else None
            cas = cassis.load_cas_from_xmi(io.BytesIO(data), typesystem=system)
        else:
            cas = cassis.load_cas_from_json(io.BytesIO(data))
        text = cas.sofa_string
        found = list(cas.select_all_annotations())
    except Exception as error:  # the library raises errors of many kinds for malformed files
        hint = "Put TypeSystem.xml beside the .xmi file" if types is None else "Export the document again"
        failure = DataError(f"{place}: the file cannot be read as a CAS ({type(error).__name__}: {error})", hint)
        raise MalformedInput("not a CAS", failure, Occurrence(place, "", name)) from error
    record = Value({}, place)
    if not isinstance(text, str):
        raise record.refuse("no text", "which has no text")
    mentions, links = [], []
    for annotation in found:
        item = Value(_Annotation(annotation), place, annotation.type.name)
        if item.raw.is_relation:
            links.append(item)
        elif not annotation.type.name.startswith(_IGNORED):
            mentions.append(item)
        elif annotation.type.name == _ANNOTATION:
            context.report.note("annotation without a layer not read", item.example())
        if not annotation.type.name.startswith(_IGNORED):
            for name in item.raw.links():
                context.report.note(f"link {name!r} of {annotation.type.name} not read", item.example())
    words = _read_words(cas, text, context, place)
    return StandoffReader(record, text, context, words).build(mentions, _read_mention, links, _read_link)


class _Annotation:
    """Annotation of a CAS, shown in messages by its type and offsets."""

    def __init__(self, annotation: Any) -> None:
        self.source = annotation
        self._features = {feature.name for feature in annotation.type.all_features}

    @property
    def is_relation(self) -> bool:
        own = not self.source.type.name.startswith(_IGNORED)
        return own and {"Governor", "Dependent"} <= self._features

    @property
    def label(self) -> str:
        for name in _LABELS:
            value = getattr(self.source, name) if name in self._features else None
            if isinstance(value, str) and value.strip():
                return value
        return str(self.source.type.name).rpartition(".")[2]

    def links(self) -> list[str]:
        """Return the features that lead to other annotations, as links and chains do, except the ends of a relation."""
        others = sorted(self._features - {"sofa", "Governor", "Dependent"})
        values = {name: getattr(self.source, name) for name in others}
        return [name for name, value in values.items() if hasattr(value, "xmiID") and getattr(value, "elements", True)]

    def __repr__(self) -> str:
        return f"{self.source.type.name}({self.source.begin}, {self.source.end})"


def _read_mention(item: Value) -> StandoffEntity:
    source = item.raw.source
    if type(source.begin) is not int or type(source.end) is not int:
        raise item.refuse("wrong type", "which has no offsets")
    return StandoffEntity(source.xmiID, source.begin, source.end, item.raw.label)


def _read_link(item: Value) -> Iterator[Link]:
    head, tail = item.raw.source.Governor, item.raw.source.Dependent
    if head is None or tail is None:
        raise item.refuse("missing entity", "which lacks its source or target", "Fix or remove it")
    yield Link(head.xmiID, item.raw.label, tail.xmiID)


def _read_words(cas: Any, text: str, context: ReadContext, place: Place) -> list[Offsets] | None:
    """Return tokens by sentence; None if the CAS has no tokens, or some that are empty or overlap."""
    tokens, given = (_select_first(cas, names) for names in (_TOKENS, _SENTENCES))
    words = [(token.begin, token.end) for token in tokens if text[token.begin : token.end].strip()]
    ordered = all(first[1] <= second[0] for first, second in pairwise(words))
    if not words or not ordered:
        return None
    if not given:
        return group_words(text, words, context, place)
    sentences = [tuple(word for word in words if s.begin <= word[0] and word[1] <= s.end) for s in given]
    return [sentence for sentence in sentences if sentence]


def _select_first(cas: Any, names: tuple[str, ...]) -> list[Any]:
    """Return the annotations of the first type that has some."""
    return next((found for n in names if cas.typesystem.contains_type(n) and (found := list(cas.select(n)))), [])


def write(documents: Iterable[Document], path: Path) -> None:
    """Write a folder with a JSON file for each document, or one ``.json`` or ``.xmi`` file for one document.

    Scores are lost. Beside an ``.xmi`` file, ``TypeSystem.xml`` is written, which readers need.
    """
    _import()
    if path.suffix in (".json", ".xmi"):
        given = list(documents)
        if len(given) != 1:
            raise DataError(
                f"{path} is for one document, but {len(given)} were passed", "Write several documents to a folder"
            )
        cas = _to_cas(given[0])
        if path.suffix == ".xmi":
            with replacing(path.with_name("TypeSystem.xml")) as handle:
                handle.write(cas.typesystem.to_xml().encode())
        with replacing(path) as handle:
            handle.write((cas.to_xmi() if path.suffix == ".xmi" else cas.to_json()).encode())
        return
    with new_folder(path) as folder:
        seen: set[str] = set()
        for document in documents:
            check_id(document.id, seen)
            file = folder / f"{document.id}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(_to_cas(document).to_json(), encoding="utf-8")


def _to_cas(document: Document) -> Any:
    cassis = _import()
    types = cassis.TypeSystem()
    token, sentence = (types.create_type(name, _ANNOTATION) for name in (_TOKEN, _SENTENCE))
    entity, relation = (types.create_type(name, _ANNOTATION) for name in (ENTITY, RELATION))
    for kind in (entity, relation):
        types.create_feature(kind, "label", "uima.cas.String")
    for name in ("Governor", "Dependent"):
        types.create_feature(relation, name, _ANNOTATION)
    cas = cassis.Cas(typesystem=types)
    cas.sofa_string, cas.sofa_mime = document.text, "text/plain"
    for s in document.sentences:
        if s.offsets:
            cas.add(sentence(begin=s.offsets[0][0], end=s.offsets[-1][1]))
        cas.add_all([token(begin=start, end=end) for start, end in s.offsets])
    placed = [entity(begin=e.start, end=e.end, label=e.label) for e in document.entities]
    cas.add_all(placed)
    for triple, first, second in index_relations(document):
        head, tail = placed[first], placed[second]
        cas.add(relation(begin=tail.begin, end=tail.end, label=triple.label, Governor=head, Dependent=tail))
    return cas


CAS = Format("cas", (".xmi",), sniff, read, write, folder=True, loses=SCORES, needs_ids=True)
