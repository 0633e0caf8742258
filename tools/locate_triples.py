"""Measure how triples without offsets are located in their texts.

    python tools/locate_triples.py DATA… [--changed]

The offsets of annotated documents are dropped and the triples are read again, sentence by sentence and document by
document. A located triple is correct if head and tail have the words of the annotation. ``--changed`` rewrites each
string at random first, as people and language models do: other case, a hyphen less or more, an article, a plural, a
typing error.
"""

import argparse
import random
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from cascade_srn import read_documents
from cascade_srn.formats.files import to_json
from cascade_srn.types import Document, Entity


def sentences_of(document: Document) -> list[Document]:
    """Return each sentence as a document of its own."""
    return [Document.from_sentences([replace(s, escaped=())], id=document.id) for s in document.sentences]


def change(text: str, rng: random.Random) -> str:
    """Return a string with one change that keeps its meaning."""
    kind = rng.choice(("case", "hyphen", "article", "plural", "typo"))
    if kind == "case":
        return text.lower() if rng.random() < 0.5 else text.title()
    if kind == "hyphen":
        return text.replace("-", " ") if "-" in text else text.replace(" ", "-", 1)
    if kind == "article":
        return f"the {text}"
    if kind == "plural":
        return text[:-1] if text.endswith("s") else f"{text}s"
    at = rng.randrange(len(text))
    return text[:at] + text[at + 1 :] if len(text) > 8 else text


def _bounds(entity: Entity) -> tuple[int, int]:
    """Return the offsets of an entity without a leading article, which the changed string may have found."""
    article = len("the ") if entity.text.lower().startswith("the ") else 0
    return entity.start + article, entity.end


def measure(documents: list[Document], *, changed: bool, verbose: bool = False) -> Counter[str]:
    """Count triples by how they are located."""
    rng = random.Random(0)
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "triples.jsonl"
        for document in documents:
            gold = {(*_bounds(r.head), r.label, *_bounds(r.tail)) for r in document.relations}
            for relation in document.relations:
                head, tail = relation.head.text, relation.tail.text
                if changed:
                    head, tail = change(head, rng), change(tail, rng)
                path.write_text(to_json({"text": document.text, "triples": [[head, relation.label, tail]]}) + "\n")
                stream = read_documents(path, "triples")
                (found,) = stream
                counts["all"] += 1
                if not found.relations:
                    counts["ambiguous" if any("several" in kind for kind in stream.report.noted) else "not found"] += 1
                    continue
                way = next((kind for kind in stream.report.noted if kind.startswith("triple located")), "exact")
                (r,) = found.relations
                is_right = (*_bounds(r.head), r.label, *_bounds(r.tail)) in gold
                counts[way.removeprefix("triple located by ")] += 1
                counts[f"{way.removeprefix('triple located by ')}, right"] += is_right
                if not is_right and verbose:
                    print(f"  {way}: {head!r} {tail!r} found as {r.head.text!r} {r.tail.text!r}")
    return counts


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--changed", action="store_true", help="rewrite the strings first")
    parser.add_argument("--verbose", action="store_true", help="list triples at the wrong place")
    options = parser.parse_args()
    documents = [document for path in options.data for document in read_documents(path)]
    for unit, texts in (("sentence", [s for d in documents for s in sentences_of(d)]), ("document", documents)):
        counts = measure(texts, changed=options.changed, verbose=options.verbose)
        located = sum(counts[way] for way in ("exact", "normalised text", "fuzzy match"))
        right = sum(counts[f"{way}, right"] for way in ("exact", "normalised text", "fuzzy match"))
        print(f"by {unit}: {dict(counts)}")
        print(f"  located {located / counts['all']:.1%}, precision of the located {right / max(1, located):.2%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
