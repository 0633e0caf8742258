"""What the template of a sentence is given: plain strings, every decision already taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cascade_srn.drawing.labels import Labels, Mark, Marks
from cascade_srn.drawing.layout import Bar, Cell, Chunk, Curve, gaps, lay_out
from cascade_srn.errors import ConfigError, did_you_mean
from cascade_srn.types import Sentence, Span, Triple

LISTINGS = ("hidden", "details")
Told = Mapping[Span | Triple, str]
"""What is said of each entity and relation."""
# The height of a row of bars.
ROW = "1.1em"
# How many characters are said of a long text: those it begins with, and those it ends with.
FIRST, LAST = 60, 20


def sentence_view(
    sentence: Sentence,
    *,
    labels: Labels,
    marks: Marks,
    name: str,
    listing: str,
    between: Sequence[str] | None = None,
) -> dict[str, Any]:
    """A sentence for the template."""
    if listing not in LISTINGS:
        raise ConfigError(f"{listing!r} is no way to list what is drawn. {did_you_mean(str(listing), LISTINGS)}")
    between = gaps(sentence) if between is None else between
    look = labels.marks(sentence) | dict(marks)
    written = {triple: _tagged(triple.label, look[triple]) for triple in sentence.triples}
    layout = lay_out(sentence, between=between, labels=written)
    told = all_said(sentence, look)
    chunks = [
        {
            "n_levels": chunk.n_levels,
            "words": [_word(cell, look) for cell in chunk.cells],
            "bars": [_bar(bar, chunk, look, told) for bar in chunk.bars],
            "stops": any(curve.left_end or curve.right_end for curve in chunk.curves),
            "curves": [
                _curve(curve, chunk, look, told, symmetric=labels.symmetric, direction=layout.direction)
                for curve in chunk.curves
            ],
        }
        for chunk in layout.chunks
    ]
    n_entities, n_relations = len(sentence.entities), len(sentence.triples)
    return {
        "name": name,
        "listing": listing,
        "direction": layout.direction,
        "below": " ".join([ROW] * layout.n_rows),
        "chunks": chunks,
        "text": "".join(word + after for word, after in zip(sentence.words, between, strict=True)),
        "entities": [said(entity, sentence, look[entity]) for entity in sentence.entities],
        "relations": [said(triple, sentence, look[triple]) for triple in sentence.triples],
        "summary": f"{_counted(n_entities, 'entity', 'entities')}, {_counted(n_relations, 'relation', 'relations')}",
    }


def said(item: Span | Triple, sentence: Sentence, mark: Mark) -> str:
    """An entity or a relation in words, with its score and the note of its mark; of long words only the ends."""
    label = shortened(item.label)
    if isinstance(item, Span):
        told = f"{words_of(item, sentence)}: {label}"
    else:
        told = f"{words_of(item.head, sentence)} — {label} → {words_of(item.tail, sentence)}"
    score = "" if item.score is None else f", score {item.score:.2f}"
    note = f" ({mark.note})" if mark.note else ""
    return f"{told}{score}{note}"


def all_said(sentence: Sentence, look: Marks) -> dict[Span | Triple, str]:
    """Every different entity and relation of a sentence in words: said on each piece of it, but made once."""
    items: list[Span | Triple] = [*sentence.entities, *sentence.triples]
    return {item: said(item, sentence, look[item]) for item in dict.fromkeys(items)}


def words_of(entity: Span, sentence: Sentence) -> str:
    """The words of an entity, joined by spaces, and shortened."""
    return shortened(" ".join(sentence.words[entity.start : entity.end]))


def shortened(text: str) -> str:
    """A text, or the beginning and the end of a long one.

    What is said of an entity stands on each piece of it: with all of its words a drawing would grow with their square.
    """
    between = " … "
    if len(text) <= FIRST + len(between) + LAST:
        return text
    return f"{text[:FIRST].rstrip()}{between}{text[-LAST:].lstrip()}"


def _word(cell: Cell, look: Marks) -> dict[str, str]:
    # A word that is a chunk of its own needs no columns.
    columns = "" if cell.columns == (1, 2) else f"{cell.columns[0]}/{cell.columns[1]}"
    css = f" in {look[cell.entity].css}" if cell.entity else ""
    css += " gap" * cell.gap + " join" * (cell.gap and cell.joined)
    return {"text": cell.text, "aside": cell.aside, "css": css, "columns": columns}


def _text_row(chunk: Chunk) -> int:
    """The grid row of a chunk's words: after its levels and a row for the feet of arcs, where there are any."""
    return chunk.n_levels + 2 if chunk.n_levels else 1


def _bar(bar: Bar, chunk: Chunk, look: Marks, told: Told) -> dict[str, str]:
    row = _text_row(chunk) + 1 + bar.row
    mark = look[bar.entity]
    return {
        "css": mark.css + " opens" * bar.opens + " closes" * bar.closes + " gap" * bar.gap,
        "area": _area(row, row + 1, bar.columns),
        "title": told[bar.entity],
        "label": _tagged(bar.entity.label, mark) if bar.opens else "",
    }


def _curve(
    curve: Curve, chunk: Chunk, look: Marks, told: Told, *, symmetric: frozenset[str], direction: str
) -> dict[str, str]:
    arc, mark = curve.arc, look[curve.arc.triple]
    row = chunk.n_levels - arc.level
    directed = arc.triple.label not in symmetric
    to_left, to_right = directed and not arc.forward, directed and arc.forward
    css = f"a{curve.number} {mark.css}"
    if curve.left_end:
        css += " left" + " to-left" * to_left
    if curve.right_end:
        css += " right" + " to-right" * to_right
    if curve.labelled:
        css += " labelled"
    # An end reaches down to the words.
    row_end = _text_row(chunk) if curve.left_end or curve.right_end else row + 1
    return {
        "css": css,
        "area": _area(row, row_end, curve.columns),
        "title": told[arc.triple],
        "label": pointed(_tagged(arc.triple.label, mark), to_left, to_right, direction) * curve.labelled,
    }


def _tagged(label: str, mark: Mark) -> str:
    return f"{label} · {mark.tag}" if mark.tag else label


def pointed(label: str, to_left: bool, to_right: bool, direction: str) -> str:
    """A relation's label with an arrow to its object, as it lies on the page."""
    if not (to_left or to_right):
        return label
    first = to_left
    glyph = "←" if to_left == (direction == "ltr") else "→"
    return f"{glyph} {label}" if first else f"{label} {glyph}"


def _area(row: int, row_end: int, columns: tuple[int, int]) -> str:
    return f"{row}/{columns[0]}/{row_end}/{columns[1]}"


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
