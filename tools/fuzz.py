"""Send unusual texts through a model or a running service, and check every offset of the results.

    python tools/fuzz.py [--texts 10000] [--service http://127.0.0.1:8000] [--output fuzz.json]

The exit code is 1 if a text failed or a result is wrong, 2 for wrong arguments.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from itertools import islice
from pathlib import Path
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

import typer

from cascade_srn.cli.benchmark import publish
from cascade_srn.cli.options import BatchWords, Device, Precision
from cascade_srn.config import PRECISIONS, Settings, require_choice, require_range
from cascade_srn.errors import CascadeError, ConfigError
from cascade_srn.extractor import Extractor
from cascade_srn.formats.files import to_json
from cascade_srn.inference.streaming import BadText
from cascade_srn.lab.benchmarks.measuring import (
    Result,
    ResultColumn,
    ResultRow,
    environment,
    number,
    text,
)
from cascade_srn.runs.device import find_device
from cascade_srn.runs.environment import shareable
from cascade_srn.types import Document

# Characters of the longest texts, and the number of texts per long text.
LONGEST, RARE = 100_000, 1000

_SENTENCES = (
    "We train a conditional random field for named entity recognition (NER), cf. Smith et al. (2010).",
    "On WSJ section 23 it reaches 93.4% F1, i.e. 0.5 points more than the state-of-the-art parser [3,4].",
    "Dr. Li's approach doesn't use hand-crafted features; it uses pre-trained word embeddings, e.g. word2vec.",
    "Results on the WMT'14 English-German task are given in Fig. 3 and Tab. 2 (see also http://example.org/a?b=c#d).",
    "Is speech recognition harder than machine translation? Not w.r.t. BLEU!",
)
_ALPHABETS = {
    "letters": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ  ",
    "marks": "aeo\u0301\u0308\u0327\u20dd\u0e4a\u200d\ufe0f \u0300",
    "emoji": "👍🏽👩‍👩‍👧🇩🇪🇫🇷😀❤️\u200d🔥 ⚕️🏳️‍🌈",
    "right to left": "שלום עולם مرحبا بالعالم \u202e\u202d\u2066\u2069\u200f,.(12)",
    "cjk": "我们训练一个模型。自然言語処理、한국어 ！？「」（）",
    "indic": "नमस्ते दुनिया। ভাষা தமிழ் ภาษาไทย ",
    "whitespace": " \t\n\r\x0b\x0c\x1c\x85\u00a0\u1680\u2003\u2028\u2029\u3000a",
    "hyphenation": "sysBERT1-\u00ad\u2010\u200b\n\r ﬁ“’",
    "control": "\x00\x01\x07\x08\x1b[31m\x7f\ufeff\ufffe\uffff\u200b a",
    "punctuation": "..,,;:!?''\"\"``()[]{}<>-–—/\\&@#%$*=~_+|^ …“”‘’«»",
    "markup": "<script>alert(1)</script>&amp;&#x0;</style><!--]]>{{x}}{%y%}${z}\"' onload=",
    "digits": "0123456789.,:;-+eE%$/ ()",
    "brackets": "([{)]} ",
}

# Constructions of documents: lists, tables, headings, code, quotations, references, LaTeX and HTML.
LAYOUT = (
    *("\n", "\n\n", "\r\n", " ", "\t", "\u2029", "    ", "A Short Heading\n", "References\n"),
    *("2 Related Work\n", "- an item\n", "* [x] done\n", "• a bullet", "1. one\n", "2. two\n", "(a) first\n"),
    *("(b) second\n", "iv) four\n", "| a | b |\n", "|---|:-:|\n", "+--+--+\n", "a\tb\n", "a | b\n", "p(y|x)"),
    *("> quoted\n", "> > twice\n", ">", "# Title\n", "## Part ##\n", "====\n", "---\n", "```\n", "```python\n"),
    *("~~~\n", "x = f(y);\n", "    return x\n", "-- \n", "17\n", "\\section{Data}", "\\textbf{", "}", "{"),
    *("\\cite{key}", "\\cite[", "\\begin{itemize}\n", "\\item ", "\\end{itemize}\n", "\\begin{tabular}{ll}"),
    *(" & ", "\\\\ ", "\\end{tabular}", "\\begin{verbatim}\n", "\\end{verbatim}\n", "5\\%", "Fig.~3", "<p>"),
    *("</p>", "<b>", "</b>", "<br>", "<br/>", '<a href="x">', "</a>", "<table>", "<tr><td>", "</table>", "<!--"),
    *("-->", "<script>", "</script>", "<pre>", "</pre>", "<unk>", "&nbsp;", "&amp;", "**bold**", "*so*"),
    *("`code`", "[a](http://b.c)", "[1] Li, S. A., and Lee, K. Parsing.\n", "[2] Wu, J. 2010.\n"),
    *("Yahoo! Answers", "the end.The next", "From: a\nTo: b\n"),
)


class FuzzText(NamedTuple):
    """A text and its kind."""

    kind: str
    text: str


def fuzz_texts(n_texts: int, *, seed: int = 0) -> Iterator[FuzzText]:
    """Generate texts of all kinds in turn. About one text in ``RARE`` is very long."""
    generator = random.Random(seed)
    kinds = list(_KINDS.items())
    for position in range(n_texts):
        if position % RARE == RARE - 1:
            name = sorted(_LONG)[position // RARE % len(_LONG)]
            yield FuzzText(name, _LONG[name](generator))
        else:
            name, make = kinds[position % len(kinds)]
            yield FuzzText(name, make(generator))


def _length(generator: random.Random) -> int:
    """Draw a length: mostly short, sometimes long, sometimes 0."""
    return min(2000, int(generator.expovariate(1 / 60)))


def _from(alphabet: str) -> Callable[[random.Random], str]:
    return lambda generator: "".join(generator.choices(alphabet, k=_length(generator)))


def _unicode(generator: random.Random) -> str:
    """Return random code points, assigned or not."""
    points = (generator.randrange(sys.maxunicode + 1) for _ in range(_length(generator)))
    return "".join(chr(point) for point in points if not 0xD800 <= point <= 0xDFFF)


def _blocks(generator: random.Random) -> str:
    """Return runs of neighbouring code points, as in real scripts."""
    runs = []
    for _ in range(1 + _length(generator) // 10):
        block = generator.randrange(0x20, 0x3100)
        runs.append(
            "".join(chr(min(0xD7FF, block + generator.randrange(40))) for _ in range(generator.randrange(1, 9)))
        )
    return " ".join(runs)


def _sentences(generator: random.Random) -> str:
    count = generator.randrange(1, 6)
    parted = generator.choice((" ", "\n", "\r\n\r\n", "\t", "", "\u00a0"))
    return parted.join(generator.choices(_SENTENCES, k=count))


def _mutated(generator: random.Random) -> str:
    """Return sentences with characters removed, doubled, replaced and inserted."""
    chars = list(_sentences(generator))
    for _ in range(generator.randrange(1, 12)):
        at = generator.randrange(len(chars))
        strange = generator.choice(_ALPHABETS[generator.choice(sorted(_ALPHABETS))])
        chars[at] = generator.choice(("", chars[at] * 2, strange, chars[at] + strange))
    return "".join(chars)


def _mixed(generator: random.Random) -> str:
    """Return short pieces of several alphabets side by side."""
    return "".join(
        "".join(generator.choices(_ALPHABETS[generator.choice(sorted(_ALPHABETS))], k=generator.randrange(1, 8)))
        for _ in range(1 + _length(generator) // 8)
    )


def _layout(generator: random.Random) -> str:
    """Return constructions and sentences in random order."""
    pieces = generator.choices((*LAYOUT, *_SENTENCES), k=1 + _length(generator) // 4)
    return "".join(piece + generator.choice(("", "", " ", "\n")) for piece in pieces)


def _repeated(generator: random.Random) -> str:
    unit = generator.choice(
        ("a", ".", "-", "((", "a.", "1,", "'", "\u0301", "👍", "the ", ". A ", "\n\n", "http://", "字")
    )
    return unit * generator.randrange(1, 300)


def _long_word(generator: random.Random) -> str:
    return generator.choice("aé字-") * LONGEST


def _long_sentence(generator: random.Random) -> str:
    """Return a very long sentence."""
    words = ("model", "uses", "a", "CRF", "for", "parsing", "and", "state-of-the-art", "(", ")", ",")
    return " ".join(generator.choices(words, k=LONGEST // 50))


def _long_document(generator: random.Random) -> str:
    return "\n".join(generator.choices(_SENTENCES, k=LONGEST // 1000))


_KINDS: dict[str, Callable[[random.Random], str]] = {
    **{name: _from(alphabet) for name, alphabet in _ALPHABETS.items()},
    "any characters": _unicode,
    "blocks": _blocks,
    "layout": _layout,
    "sentences": _sentences,
    "mutated sentences": _mutated,
    "mixed": _mixed,
    "repeated": _repeated,
}
_LONG: dict[str, Callable[[random.Random], str]] = {
    "long document": _long_document,
    "long sentence": _long_sentence,
    "long word": _long_word,
}


@dataclass(frozen=True)
class FuzzOptions(Settings):
    """Options of a fuzzing run.

    Attributes:
        skip: Number of texts to skip first, to continue an earlier run.
        threshold: Threshold of all turns; None for the thresholds of the model.
        service: Address of a running service. If given, no model is loaded.
    """

    model: str | None = None
    texts: int = 10_000
    skip: int = 0
    seed: int = 0
    threshold: float | None = None
    batch_words: int = 4096
    precision: str = "auto"
    device: str = "auto"
    service: str | None = None

    def __post_init__(self) -> None:
        require_range("texts", self.texts, 1)
        require_range("skip", self.skip, 0)
        require_range("batch_words", self.batch_words, 1)
        require_choice("precision", self.precision, PRECISIONS)


# So many ask at once: the service then batches strange texts with each other.
_CLIENTS = 8
_SECONDS = 120


def asked(url: str, texts: Sequence[str], *, threshold: float | None = None) -> Iterator[Document | str]:
    """Send texts to a service; yield documents in order, or the error as a phrase."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ConfigError(f"the service is {url!r}", "Give its address, such as http://127.0.0.1:8000")
    _require_ready(HTTPConnection(parts.hostname, parts.port, timeout=_SECONDS), url)
    connections = threading.local()

    def ask(text: str) -> Document | str:
        if not hasattr(connections, "own"):
            connections.own = HTTPConnection(parts.hostname or "", parts.port, timeout=_SECONDS)
        try:
            return _answer(connections.own, text, threshold)
        except (OSError, HTTPException) as error:
            # The next request opens a new connection.
            connections.own.close()
            return f"no answer: {type(error).__name__}: {error}"

    with ThreadPoolExecutor(_CLIENTS) as clients:
        yield from clients.map(ask, texts)


def _require_ready(connection: HTTPConnection, url: str) -> None:
    try:
        connection.request("GET", "/ready")
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        raise ConfigError(f"there is no service at {url!r} ({error})", "Start one with cascade-srn serve") from error
    finally:
        connection.close()
    if status != 200:
        raise ConfigError(f"the service at {url!r} is not ready (status {status})", "Wait until it is")


def _answer(connection: HTTPConnection, text: str, threshold: float | None) -> Document | str:
    body: dict[str, object] = {"text": text}
    if threshold is not None:
        body["thresholds"] = threshold
    connection.request("POST", "/extract", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    received = answer.read().decode()
    if answer.status != 200:
        return f"status {answer.status}: {received[:200]}"
    try:
        (record,) = json.loads(received)["documents"]
        return Document.from_dict(record)
    except (CascadeError, ValueError, KeyError, TypeError) as error:
        return f"the answer is no document: {type(error).__name__}: {error}"


# Violations that are kept word for word.
_SHOWN = 20


def violations(given: str, document: Document) -> Iterator[str]:
    """Yield a phrase for each defect of a document."""
    if document.text != given:
        yield "the document has another text"
    if not document.coverage.complete:
        yield f"characters {document.coverage.missed[:3]} lie in no word"
    for entity in document.entities:
        if not 0 <= entity.start < entity.end <= len(given) or given[entity.start : entity.end] != entity.text:
            yield f"an entity is said to be {entity.text!r} at [{entity.start}, {entity.end})"
    scores = [entity.score for entity in document.entities] + [relation.score for relation in document.relations]
    if not all(score is not None and 0 <= score <= 1 for score in scores):
        yield "a score is no probability"
    known = {id(entity) for entity in document.entities}
    if not all(id(relation.head) in known and id(relation.tail) in known for relation in document.relations):
        yield "a relation is between no entities of the document"
    try:
        record = document.to_dict()
        to_json(record).encode()
        if Document.from_dict(record).to_dict() != record:
            yield "the document does not come back from its dictionary as it was"
    except CascadeError as error:
        yield f"the document cannot be made a dictionary and back: {error}"


def measure(options: FuzzOptions, extractor: Extractor | None = None) -> Result:
    """Extract from the texts and check the results."""
    device = find_device(options.device)
    if extractor is None and options.service is None:
        extractor = Extractor.from_pretrained(options.model, device=device, precision=options.precision)
    given = list(islice(fuzz_texts(options.skip + options.texts, seed=options.seed), options.skip, None))
    told: list[str] = []
    rows = {fuzz.kind: _row(fuzz.kind) for fuzz in given}
    begin = time.monotonic()
    for position, fuzz, outcome in _outcomes(extractor, given, options):
        row = rows[fuzz.kind]
        row["texts"] += 1
        row["characters"] += len(fuzz.text)
        wrong = [outcome] if isinstance(outcome, str) else list(violations(fuzz.text, outcome))
        if isinstance(outcome, Document):
            row["entities"] += len(outcome.entities)
            row["relations"] += len(outcome.relations)
        row["violations"] += len(wrong)
        told += [f"text {options.skip + position} ({fuzz.kind}, seed {options.seed}): {phrase}" for phrase in wrong]
    seconds = time.monotonic() - begin
    used = ("bf16" if device.type == "cuda" else "float32") if options.precision == "auto" else options.precision
    return Result(
        name="fuzz" if options.service is None else "fuzz-service",
        device=device.type,
        settings=shareable(options.to_dict()),
        environment=environment(device, used),
        rows=[*rows.values(), _total(rows.values())],
        columns=_COLUMNS,
        notes=(
            f"{len(given):,} texts in {seconds:,.0f} s; {len(told):,} violations",
            *(phrase for phrase in told[:_SHOWN]),
        ),
        summary={"texts": len(given), "violations": len(told), "seconds": seconds},
    )


def _outcomes(
    extractor: Extractor | None, given: list[FuzzText], options: FuzzOptions
) -> Iterator[tuple[int, FuzzText, Document | str]]:
    """Yield the position, the text, and the document or error of each text."""
    if extractor is None:
        answers = asked(options.service or "", [fuzz.text for fuzz in given], threshold=options.threshold)
        for position, (fuzz, answer) in enumerate(zip(given, answers, strict=True)):
            yield position, fuzz, answer
        return
    bad: dict[int, str] = {}

    def note(failed: BadText) -> Document:
        bad[failed.position] = f"{type(failed.error).__name__}: {failed.error}"
        return Document("")

    found = extractor.stream(
        (fuzz.text for fuzz in given),
        batch_words=options.batch_words,
        thresholds=options.threshold,
        on_error=note,
    )
    for position, (fuzz, document) in enumerate(zip(given, found, strict=True)):
        yield position, fuzz, bad.get(position, document)


def _counts(name: str) -> ResultColumn:
    return number(name, lambda row: row[name])


def _row(kind: str) -> ResultRow:
    return {"kind": kind, "texts": 0, "characters": 0, "entities": 0, "relations": 0, "violations": 0}


def _total(rows: Iterable[ResultRow]) -> ResultRow:
    total = _row("all")
    for row in rows:
        for name in total:
            if name != "kind":
                total[name] += row[name]
    return total


_COLUMNS = (
    text("kind", "kind"),
    *(_counts(name) for name in ("texts", "characters", "entities", "relations", "violations")),
)


def is_faultless(result: Result) -> bool:
    """Return whether there was no failure and no defect."""
    return bool(result.summary["violations"] == 0)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def fuzz(
    model: Annotated[str | None, typer.Option(help="Model folder, name or hub id.")] = None,
    texts: Annotated[int, typer.Option(help="Number of texts.")] = FuzzOptions.texts,
    skip: Annotated[
        int, typer.Option(help="Number of texts to skip first, to continue an earlier run.")
    ] = FuzzOptions.skip,
    seed: Annotated[int, typer.Option(help="Random seed.")] = FuzzOptions.seed,
    threshold: Annotated[
        float | None, typer.Option(help="Threshold of all turns; the thresholds of the model if omitted.")
    ] = FuzzOptions.threshold,
    batch_words: BatchWords = FuzzOptions.batch_words,
    precision: Precision = FuzzOptions.precision,
    device: Device = FuzzOptions.device,
    service: Annotated[
        str | None, typer.Option(help="Address of a running service, such as http://127.0.0.1:8000.")
    ] = FuzzOptions.service,
    output: Annotated[Path, typer.Option(help="JSON file for the results.")] = Path("fuzz.json"),
) -> None:
    """Send unusual texts through a model or a service, and check every offset of the results."""
    options = FuzzOptions(
        model=model,
        texts=texts,
        skip=skip,
        seed=seed,
        threshold=threshold,
        batch_words=batch_words,
        precision=precision,
        device=device,
        service=service,
    )
    result = measure(options)
    publish(result, output)
    if not is_faultless(result):
        raise typer.Exit(1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the tool; report errors of the package in one sentence."""
    try:
        app(arguments)
    except CascadeError as error:
        sys.stderr.write(f"Error: {error}\n")
        raise SystemExit(2) from error


if __name__ == "__main__":
    main()
