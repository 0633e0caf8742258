"""The page in a real browser, before a real server whose model has learned a few texts by heart."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from functools import cache

from tests.drawing.browser import WIDTHS
from tests.twelve_sentences import DOCUMENTS, SCHEMA, WORDS

from cascade_srn import Document, Extractor, Model, ModelSettings, Sentence, TrainingSettings, train
from cascade_srn.data.alignment import WordMap
from cascade_srn.encoder.fresh import create_encoder
from cascade_srn.text.segment import segment
from cascade_srn.types import Span, Triple

TEXT = (
    "Ada Berg leads Norlux in Oslo and Tim Falk leads Rivon in Bergen. The weather was mild all week. "
    "Mona Lind leads the University of Turku."
)
EMOJI = "👩‍🚀🚀 Ada Berg leads 😀 Norlux in Oslo."
ATTACK = "<img src=x onerror=boom()> leads <script>boom()</script> in Oslo & \"'Turku'\"."
# What the model is taught to find in them.
TAUGHT = (
    (EMOJI, {"Ada Berg": "Person", "Norlux": "Organization", "Oslo": "Place"}, [("Ada Berg", "leads", "Norlux")]),
    (
        ATTACK,
        {"<img src=x onerror=boom()>": "Person", "<script>boom()</script>": "Organization", "Oslo": "Place"},
        [("<img src=x onerror=boom()>", "leads", "<script>boom()</script>")],
    ),
)


PASTE = """(field, text) => {
    field.value = text;
    field.dispatchEvent(new InputEvent("input", {inputType: "insertFromPaste", bubbles: true}));
}"""


@cache
def taught_extractor() -> Extractor:
    """A tiny model after two seconds of training; it is sure of some things and less so of others."""
    documents = [*DOCUMENTS, *(_document(*one) for one in TAUGHT)]
    words = [word for document in documents for sentence in document.sentences for word in sentence.words]
    folder = tempfile.mkdtemp(prefix="cascade-page-")
    encoder = create_encoder([*WORDS, *words], folder, width=32, n_layers=1, n_heads=2, vocabulary=300, dropout=0.0)
    # Temperatures spread the scores, so that there is something to filter.
    settings = {
        "encoder": {"name": encoder},
        "hidden_width": 24,
        "matcher_width": 24,
        "dropout": 0.0,
        "temperatures": {"entity": 2.5, "subject": 2.5, "object": 2.5},
    }
    model = Model.create(ModelSettings.from_dict(settings), SCHEMA, seed=0)
    training = TrainingSettings(epochs=12, learning_rate=1e-2, encoder_learning_rate=1e-2, evaluate_every=12)
    for _ in train(model, documents * 8, settings=training):
        pass
    return Extractor(model)


def _document(text: str, entities: dict[str, str], relations: list[tuple[str, str, str]]) -> Document:
    offsets = [tuple(map(tuple, words)) for words in segment(text)]
    words = WordMap(text, offsets)
    spans: dict[str, Span] = {}
    places = {}
    for phrase, label in entities.items():
        start = text.index(phrase)
        place = words.place(start, start + len(phrase))
        spans[phrase], places[phrase] = Span(place.start, place.end, label), place.sentence
    sentences = []
    for number, pairs in enumerate(offsets):
        inside = [span for phrase, span in spans.items() if places[phrase] == number]
        triples = [Triple(spans[a], label, spans[b]) for a, label, b in relations if places[a] == number]
        sentences.append(Sentence(tuple(text[low:high] for low, high in pairs), pairs, tuple(inside), tuple(triples)))
    return Document(text, tuple(sentences))


@contextmanager
def visiting(browser, url, *, width="desktop", theme="light", expected=(), **options):
    """The page of a service. What it complains of, or asks of any other place than the service, is an error.

    ``expected`` are parts of complaints that the test provokes.
    """
    context = browser.new_context(viewport={"width": WIDTHS[width], "height": 900}, color_scheme=theme, **options)
    page = context.new_page()
    page.set_default_timeout(15_000)
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: None if _of(request.url, url) else complaints.append(request.url))
    page.asked = []
    page.on("request", lambda request: page.asked.append(request))
    page.goto(url)
    yield page
    assert [one for one in complaints if not any(part in one for part in expected)] == []
    context.close()


def _of(address: str, url: str) -> bool:
    return address.startswith((f"{url}/", f"blob:{url}/"))


def write(page, text):
    """Paste a text into the field in place of what is there, and wait until its result is drawn."""
    page.locator("#text").evaluate(PASTE, text)
    settle(page)


def settle(page):
    """Wait until what is shown belongs to what was asked."""
    page.locator("#result.filled:not(.stale)[aria-busy=false]").wait_for()


def slide(page, value):
    """Move the slider and wait for the drawing."""
    with page.expect_response("**/draw"):
        page.locator("#least").fill(str(value))
    settle(page)


def bodies(page, path):
    """What was sent to a path."""
    return [request.post_data_json for request in page.asked if request.url.endswith(path)]


def drawn(page):
    """The entities and the labels of the arcs in the drawing, sorted."""
    titles = "(all) => all.map((one) => one.title.replace(/, score .*/, ''))"
    arcs = "(all) => Array.from(new Set(all.map((one) => one.title.replace(/, score .*/, ''))))"
    drawing = page.locator("#view-drawing")
    return (
        sorted(drawing.locator(".bar.opens").evaluate_all(titles)),
        sorted(drawing.locator(".curve > b").evaluate_all(arcs)),
    )


def as_drawn(document, least=0.0):
    """What the drawing of a document is to hold when all that scores less is hidden."""
    kept = [entity for entity in document.entities if entity.score >= least]
    relations = [r for r in document.relations if r.score >= least and {r.head, r.tail} <= set(kept)]

    def words(entity):
        inside = [(low, high) for s in document.sentences for low, high in s.offsets]
        return " ".join(document.text[low:high] for low, high in inside if entity.start <= low and high <= entity.end)

    return (
        sorted(f"{words(e)}: {e.label}" for e in kept),
        sorted({f"{words(r.head)} — {r.label} → {words(r.tail)}" for r in relations}),
    )


def triples(page):
    """The rows of the list of triples."""
    rows = page.locator("#view-triples tbody tr").evaluate_all(
        """(rows) => rows.map((row) => [
            row.cells[0].querySelector("bdi").textContent,
            row.cells[1].querySelector(".relation > span").textContent,
            row.cells[2].querySelector("bdi").textContent,
        ])"""
    )
    return [tuple(row) for row in rows]
