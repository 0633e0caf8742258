"""Helpers that open the page in a browser, served with a model that was trained on a few texts."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from functools import cache

from tests.apps.web.live_app import until
from tests.drawing.browser import WIDTHS
from tests.twelve_sentences import DOCUMENTS, SCHEMA, WORDS

from cascade_srn import Document, Extractor, Model, ModelSettings, Sentence, TrainingSettings, train
from cascade_srn.encoder.fresh import create_encoder
from cascade_srn.formats.alignment import WordMap
from cascade_srn.text.segment import segment
from cascade_srn.types import Span, Triple

TEXT = (
    "Ada Berg leads Norlux in Oslo and Tim Falk leads Rivon in Bergen. The weather was mild all week. "
    "Mona Lind leads the University of Turku."
)
EMOJI = "👩‍🚀🚀 Ada Berg leads 😀 Norlux in Oslo."
# With a slash instead of a space, this is a tag for browsers but text for the segmenter, so entities are found in it.
ATTACK = "<img/src=x onerror=boom()> leads <script/x>boom()</script/x> in Oslo & \"'Turku'\"."
# Texts with the entities and relations that the model learns.
TRAINING_TEXTS = (
    (EMOJI, {"Ada Berg": "Person", "Norlux": "Organization", "Oslo": "Place"}, [("Ada Berg", "leads", "Norlux")]),
    (
        ATTACK,
        {"<img/src=x onerror=boom()>": "Person", "<script/x>boom()</script/x>": "Organization", "Oslo": "Place"},
        [("<img/src=x onerror=boom()>", "leads", "<script/x>boom()</script/x>")],
    ),
)


PASTE = """(field, text) => {
    field.value = text;
    field.dispatchEvent(new InputEvent("input", {inputType: "insertFromPaste", bubbles: true}));
}"""


@cache
def trained_extractor() -> Extractor:
    """Return a tiny model after two seconds of training. Its scores differ between results."""
    documents = [*DOCUMENTS, *(_document(*one) for one in TRAINING_TEXTS)]
    words = [word for document in documents for sentence in document.sentences for word in sentence.words]
    folder = tempfile.mkdtemp(prefix="cascade-page-")
    encoder = create_encoder([*WORDS, *words], folder, width=32, n_layers=1, n_heads=2, vocabulary=300, dropout=0.0)
    # Temperatures spread the scores, so that the slider filters some of them.
    settings = {
        "encoder": {"name": encoder},
        "hidden_width": 24,
        "matcher_width": 24,
        "dropout": 0.0,
        "temperatures": {"entity": 2.5, "subject": 2.5, "object": 2.5},
        "overlaps": "all",
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
def open_page(browser, address, *, url=None, width="desktop", theme="light", expected=(), **options):
    """Open the page of a service. Fail on console messages and on requests to other servers.

    ``expected`` are parts of the console messages that the test provokes. ``url`` is the service, if the address is
    that of a view.
    """
    url = address if url is None else url
    context = browser.new_context(viewport={"width": WIDTHS[width], "height": 900}, color_scheme=theme, **options)
    page = context.new_page()
    page.set_default_timeout(15_000)
    problems = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: None if _is_local(request.url, url) else problems.append(request.url))
    page.requests = []
    page.on("request", lambda request: page.requests.append(request))
    page.goto(address)
    yield page
    assert [one for one in problems if not any(part in one for part in expected)] == []
    context.close()


def _is_local(address: str, url: str) -> bool:
    return address.startswith((f"{url}/", f"blob:{url}/"))


def enter_text(page, text):
    """Replace the text, and wait for the drawing of its result."""
    page.locator("#text").evaluate(PASTE, text)
    wait_for_result(page)


def wait_for_result(page):
    """Wait until the result belongs to the text."""
    page.locator("#result.filled:not(.stale)[aria-busy=false]").wait_for()


# The graph of Cytoscape.
CY = "document.getElementById('canvas')._cyreg.cy"


def show_graph(page):
    """Open the tab of the graph, and wait until it is drawn."""
    page.click("#tab-graph")
    until(lambda: page.evaluate("(document.getElementById('canvas')._cyreg?.cy.nodes().length ?? 0) > 0"))


def click_node(page, name):
    """Click the first node with a name."""
    place = page.evaluate(
        f"""(name) => {{
            const at = {CY}.nodes().filter((node) => node.data("name") === name)[0].renderedPosition();
            const box = document.getElementById("canvas").getBoundingClientRect();
            return [box.x + at.x, box.y + at.y];
        }}""",
        name,
    )
    page.mouse.click(*place)


def set_min_score(page, value):
    """Move the slider, and wait for the drawing."""
    with page.expect_response("**/draw"):
        page.locator("#min-score").fill(str(value))
    wait_for_result(page)


def sent_bodies(page, path):
    """Return the bodies of the requests to a path."""
    return [request.post_data_json for request in page.requests if request.url.endswith(path)]


def read_drawing(page):
    """Return the entities and relations of the drawing, sorted."""
    titles = "(all) => all.map((one) => one.title.replace(/, score .*/, ''))"
    arcs = "(all) => Array.from(new Set(all.map((one) => one.title.replace(/, score .*/, ''))))"
    drawing = page.locator("#view-drawing")
    return (
        sorted(drawing.locator(".bar.opens").evaluate_all(titles)),
        sorted(drawing.locator(".curve > b").evaluate_all(arcs)),
    )


def expected_drawing(document, min_score=0.0):
    """Return what :func:`read_drawing` is to return for a document."""
    kept = [entity for entity in document.entities if entity.score >= min_score]
    relations = [r for r in document.relations if r.score >= min_score and {r.head, r.tail} <= set(kept)]

    def words(entity):
        inside = [(low, high) for s in document.sentences for low, high in s.offsets]
        return " ".join(document.text[low:high] for low, high in inside if entity.start <= low and high <= entity.end)

    return (
        sorted(f"{words(e)}: {e.label}" for e in kept),
        sorted({f"{words(r.head)} — {r.label} → {words(r.tail)}" for r in relations}),
    )


def read_triples(page):
    """Return the rows of the table of triples."""
    rows = page.locator("#view-triples tbody tr").evaluate_all(
        """(rows) => rows.map((row) => [
            row.cells[0].querySelector("bdi").textContent,
            row.cells[1].querySelector(".relation > span").textContent,
            row.cells[2].querySelector("bdi").textContent,
        ])"""
    )
    return [tuple(row) for row in rows]
