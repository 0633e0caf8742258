"""Compare readers of PDF files: ours, pypdf and pdfminer.six, as far as they are installed.

Usage: python tools/compare_pdf.py FOLDER --words WORDS.txt [--files N] [--readers ours,pypdf] [--faults N]

Most papers have no reference text: a list of words is the measure. WORDS.txt has one known word per line, the most
frequent first. Numbers, formulas and unknown names are not judged.

- torn: two neighbours in a line, at least one of them unknown, are a known word without the space ("mo del").
- glued: an unknown word consists of two or three frequent ones ("ofthe"), or has a sentence end in it ("graphs.We").
- joined: share of the words hyphenated at the end of a line that are known together with what follows. A reader that
  goes on in another column, a footnote or a header gives other words, so that this measures the order.
- order: with PAPER.tex next to PAPER.pdf, share of the runs of five words of both that are in the same order. Else, for
  ours, the larger of its shares with the other readers. Figures and footnotes are in other places than in LaTeX.

Compounds that the list lacks ("handbook") count as glued, and variables before a word ("v is") as torn.
"""

import argparse
import re
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Set
from pathlib import Path

Fault = tuple[str, str]
_TOKEN = re.compile(r"[A-Za-z]+")
_HYPHENATED = re.compile(r"(?<![\w-])([A-Za-z]{2,})-\n+([a-z]{2,})(?![\w-])")
_LINE_END = re.compile(r"\S+-\n+\S+")
_GLUED_SENTENCES = re.compile(r"[a-z]{3,}[.,;:][A-Z][a-z]{2,}")
_LIGATURES = {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "\xad\n": "-\n"}
_COMMAND = re.compile(r"\\(?:cite\w*|ref|label|begin|end|includegraphics)\*?(?:\[[^]]*])?\{[^}]*}|\\[a-zA-Z]+\*?|[{}~]")
_RUN = 5
_N_FREQUENT = 6000


def _read_ours(path: Path) -> str:
    from cascade_srn.text.pdf import read_pdf

    return read_pdf(path)


def _read_pypdf(path: Path) -> str:
    from pypdf import PdfReader

    return "\n".join(page.extract_text() for page in PdfReader(path).pages)


def _read_pdfminer(path: Path) -> str:
    from pdfminer.high_level import extract_text

    return str(extract_text(path))


READERS: dict[str, Callable[[Path], str]] = {"ours": _read_ours, "pypdf": _read_pypdf, "pdfminer": _read_pdfminer}


def find_faults(text: str, known: Set[str], frequent: Set[str]) -> tuple[Counter[str], list[Fault]]:
    """Return the numbers of judged, torn, glued, hyphenated and joined words, and the faults."""
    counts: Counter[str] = Counter()
    faults: list[Fault] = []
    for line in _LINE_END.sub("", text).split("\n"):
        last = ""
        for word in line.split():
            match = _TOKEN.fullmatch(word.strip(".,;:()[]“”\"'’"))
            token = match[0].lower() if match else ""
            is_known = token in known
            parts = re.split("[.,;:]", word.lower()) if _GLUED_SENTENCES.fullmatch(word) else []
            if parts and known >= set(parts):
                faults.append(("glued", word))
            elif match and not is_known and match[0][1:].islower() and _is_glued(token, frequent):
                faults.append(("glued", token))
            elif last and token and last + token in known and not (last in known and (is_known or len(token) == 1)):
                faults.append(("torn", f"{last} {token}"))
            counts["words"] += is_known
            last = token if match and word.endswith(match[0]) else ""  # punctuation ends a word
    for match in _HYPHENATED.finditer(text):
        counts["hyphenated"] += 1
        first, second = match[1].lower(), match[2]
        if first + second in known or (first in known and second in known):
            counts["joined"] += 1
        else:
            faults.append(("not joined", f"{first}-{second}"))
    counts.update(kind for kind, _ in faults)
    return counts, faults


def _is_glued(token: str, frequent: Set[str], n_parts: int = 3) -> bool:
    return any(
        token[:at] in frequent
        and (token[at:] in frequent or (n_parts > 2 and _is_glued(token[at:], frequent, n_parts - 1)))
        for at in range(2, len(token) - 1)
    )


def order_share(source: str, text: str) -> float:
    """Return the share of the runs of words that occur once in both texts and have the same order in both."""
    first, second = (dict(_unique_runs(_TOKEN.findall(each.lower()))) for each in (source, text))
    places = [second[run] for run in sorted(first, key=lambda run: first[run]) if run in second]
    ends: list[int] = []  # of increasing subsequences, by their length
    for place in places:
        at = bisect_left(ends, place)
        ends[at : at + 1] = [place]
    return len(ends) / max(1, len(places))


def _unique_runs(words: list[str]) -> Iterator[tuple[tuple[str, ...], int]]:
    runs = [tuple(words[at : at + _RUN]) for at in range(len(words) - _RUN + 1)]
    counts = Counter(runs)
    return ((run, at) for at, run in enumerate(runs) if counts[run] == 1)


def _read_all(path: Path, readers: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the reader, the text and the error of each reader that is installed."""
    for name in readers:
        try:
            text = READERS[name](path)
        except ImportError:
            continue
        except Exception as error:  # readers raise anything
            yield name, "", f"{type(error).__name__}: {error}"
            continue
        for ligature, letters in _LIGATURES.items():
            text = text.replace(ligature, letters)
        yield name, text, ""


def main() -> None:
    """Print a line for each file and reader, and the totals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--words", type=Path, required=True, help="known words, one per line, the most frequent first")
    parser.add_argument("--files", type=int, help="number of files")
    parser.add_argument("--readers", default=",".join(READERS))
    parser.add_argument("--faults", type=int, default=0, metavar="N", help="print the N most frequent faults")
    arguments = parser.parse_args()
    words = arguments.words.read_text(encoding="utf-8").lower().split()
    known, frequent = frozenset(words), frozenset(words[:_N_FREQUENT])
    totals: dict[str, Counter[str]] = {}
    for path in sorted(arguments.folder.rglob("*.pdf"))[: arguments.files]:
        sys.stdout.write(f"{path.name}\n")
        found = list(_read_all(path, arguments.readers.split(",")))
        source = path.with_suffix(".tex")
        references = [_COMMAND.sub(" ", source.read_text(encoding="utf-8"))] if source.exists() else []
        for name, text, error in found:
            if error:
                sys.stdout.write(f"  {name:8} {error[:150]}\n")
                continue
            counts, faults = find_faults(text, known, frequent)
            totals.setdefault(name, Counter()).update(counts)
            others = references or [other for each, other, _ in found if each != name and name == "ours"]
            order = max((order_share(other, text) for other in others if other), default=None)
            shown = "" if order is None else f", order {order:.1%}"
            sys.stdout.write(f"  {name:8} {_describe(counts)}{shown}\n")
            for (kind, word), n in Counter(faults).most_common(arguments.faults):
                sys.stdout.write(f"    {kind}: {word} ({n})\n")
        sys.stdout.flush()
    for name, counts in totals.items():
        sys.stdout.write(f"all, {name}: {_describe(counts)}\n")


def _describe(counts: Counter[str]) -> str:
    n_bad = counts["torn"] + counts["glued"]
    whole = 1 - n_bad / max(1, counts["words"] + n_bad)
    joined = counts["joined"] / max(1, counts["hyphenated"])
    return (
        f"{whole:.2%} of {counts['words'] + n_bad} words whole ({counts['torn']} torn, {counts['glued']} glued), "
        f"{joined:.1%} of {counts['hyphenated']} hyphenated ones joined"
    )


if __name__ == "__main__":
    main()
