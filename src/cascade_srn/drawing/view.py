"""Prepare a sentence for the template: plain strings, with all decisions made."""

from collections.abc import Mapping, Sequence
from typing import Any

from cascade_srn.drawing.colours import LabelColours, Mark, Marks
from cascade_srn.drawing.layout import Bar, Chunk, Curve, WordCell, lay_out, offset_gaps
from cascade_srn.errors import ConfigError, did_you_mean
from cascade_srn.types import Sentence, Span, Triple

LISTINGS = ("hidden", "details")
ROW_HEIGHT = "1.1em"
# Numbers of characters at the start and the end of a shortened text.
N_FIRST, N_LAST = 60, 20

# A description of each entity and relation.
Descriptions = Mapping[Span | Triple, str]


def sentence_view(
    sentence: Sentence,
    *,
    labels: LabelColours,
    marks: Marks,
    name: str,
    listing: str,
    gaps: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the template variables of a sentence. ``gaps`` is the text after each word."""
    if listing not in LISTINGS:
        raise ConfigError(f"listing is {listing!r}", did_you_mean(str(listing), LISTINGS))
    gaps = offset_gaps(sentence) if gaps is None else gaps
    marks = labels.make_marks(sentence) | dict(marks)
    arc_labels = {triple: _add_tag(triple.label, marks[triple]) for triple in sentence.triples}
    layout = lay_out(sentence, gaps=gaps, labels=arc_labels)
    descriptions = describe_all(sentence, marks, labels.symmetric)
    chunks = [
        {
            "n_levels": chunk.n_levels,
            "words": [_word_view(cell, marks) for cell in chunk.cells],
            "bars": [_bar_view(bar, chunk, marks, descriptions) for bar in chunk.bars],
            "stops": any(curve.left_end or curve.right_end for curve in chunk.curves),
            "curves": [
                _curve_view(curve, chunk, marks, descriptions, symmetric=labels.symmetric, direction=layout.direction)
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
        "below": " ".join([ROW_HEIGHT] * layout.n_rows),
        "chunks": chunks,
        "text": "".join(word + gap for word, gap in zip(sentence.words, gaps, strict=True)),
        "entities": [descriptions[entity] for entity in sentence.entities],
        "relations": [descriptions[triple] for triple in sentence.triples],
        "summary": f"{_format_count(n_entities, 'entity', 'entities')}, "
        f"{_format_count(n_relations, 'relation', 'relations')}",
    }


def describe_item(item: Span | Triple, sentence: Sentence, mark: Mark, symmetric: frozenset[str] = frozenset()) -> str:
    """Describe an entity or relation in words, with its score and note. Long texts are shortened.

    Relations of a label in ``symmetric`` have no arrow.
    """
    label = _shorten(item.label)
    if isinstance(item, Span):
        text = f"{_entity_text(item, sentence)}: {label}"
    else:
        arrow = "—" if item.label in symmetric else "→"
        text = f"{_entity_text(item.head, sentence)} — {label} {arrow} {_entity_text(item.tail, sentence)}"
    score = "" if item.score is None else f", score {item.score:.2f}"
    note = f" ({mark.note})" if mark.note else ""
    return f"{text}{score}{note}"


def describe_all(sentence: Sentence, marks: Marks, symmetric: frozenset[str] = frozenset()) -> dict[Span | Triple, str]:
    """Return the descriptions of all entities and relations of a sentence."""
    items: list[Span | Triple] = [*sentence.entities, *sentence.triples]
    return {item: describe_item(item, sentence, marks[item], symmetric) for item in dict.fromkeys(items)}


def add_arrow(label: str, to_left: bool, to_right: bool, direction: str) -> str:
    """Add an arrow to the label of a relation on the side of its object."""
    if not (to_left or to_right):
        return label
    arrow = "←" if to_left == (direction == "ltr") else "→"
    return f"{arrow} {label}" if to_left else f"{label} {arrow}"


def _entity_text(entity: Span, sentence: Sentence) -> str:
    return _shorten(" ".join(sentence.words[entity.start : entity.end]))


def _shorten(text: str) -> str:
    """Return the start and the end of a long text.

    Each piece of an entity has its description, so the drawing would otherwise grow with the square of its length.
    """
    ellipsis = " … "
    if len(text) <= N_FIRST + len(ellipsis) + N_LAST:
        return text
    return f"{text[:N_FIRST].rstrip()}{ellipsis}{text[-N_LAST:].lstrip()}"


def _word_view(cell: WordCell, marks: Marks) -> dict[str, str]:
    # A single word in a chunk needs no columns.
    columns = "" if cell.columns == (1, 2) else f"{cell.columns[0]}/{cell.columns[1]}"
    css = f" in {marks[cell.entity].css}" if cell.entity else ""
    css += " gap" * cell.gap + " join" * (cell.gap and cell.joined)
    return {"text": cell.text, "aside": cell.after.strip(), "css": css, "columns": columns}


def _text_row(chunk: Chunk) -> int:
    """Return the grid row of the words: after the arc levels and a row for the arc ends."""
    return chunk.n_levels + 2 if chunk.n_levels else 1


def _bar_view(bar: Bar, chunk: Chunk, marks: Marks, descriptions: Descriptions) -> dict[str, str]:
    row = _text_row(chunk) + 1 + bar.row
    mark = marks[bar.entity]
    return {
        "css": mark.css + " opens" * bar.opens + " closes" * bar.closes + " gap" * bar.gap,
        "area": _grid_area(row, row + 1, bar.columns),
        "title": descriptions[bar.entity],
        "label": _add_tag(bar.entity.label, mark) if bar.opens else "",
    }


def _curve_view(
    curve: Curve, chunk: Chunk, marks: Marks, descriptions: Descriptions, *, symmetric: frozenset[str], direction: str
) -> dict[str, str]:
    arc, mark = curve.arc, marks[curve.arc.triple]
    row = chunk.n_levels - arc.level
    to_left, to_right = arc.arrows(symmetric)
    css = f"a{curve.number} {mark.css}"
    if curve.left_end:
        css += " left" + " to-left" * to_left
    if curve.right_end:
        css += " right" + " to-right" * to_right
    if curve.labelled:
        css += " labelled"
    # An end reaches down to the words.
    row_end = _text_row(chunk) if curve.left_end or curve.right_end else row + 1
    label = add_arrow(_add_tag(arc.triple.label, mark), to_left, to_right, direction)
    return {
        "css": css,
        "area": _grid_area(row, row_end, curve.columns),
        "title": descriptions[arc.triple],
        "label": label if curve.labelled else "",
    }


def _add_tag(label: str, mark: Mark) -> str:
    return f"{label} · {mark.tag}" if mark.tag else label


def _grid_area(row: int, row_end: int, columns: tuple[int, int]) -> str:
    return f"{row}/{columns[0]}/{row_end}/{columns[1]}"


def _format_count(number: int, singular: str, plural: str) -> str:
    return f"{number} {singular if number == 1 else plural}"
