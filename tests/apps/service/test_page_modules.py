"""JavaScript modules of the page, compared with Python."""

import random

import pytest
from tests.apps.service.browsing import trained_extractor
from tests.apps.service.live import live

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def modules(browser):
    """Return a function that runs JavaScript, which can import the modules of the page."""
    with live(trained_extractor()) as running:
        page = browser.new_page()
        page.goto(f"{running.url}/docs")
        yield lambda code, given=None: page.evaluate(f"async (given) => {{ {code} }}", given)


def random_text(seed):
    chosen = random.Random(seed)
    return "".join(chosen.choices("ab \n\t.é😀🧑‍🚀\u0301\u200dא漢𝔸", k=chosen.randrange(40)))


def test_offsets_count_code_points(modules):
    cases = []
    for seed in range(60):
        text = random_text(seed)
        cuts = sorted(random.Random(seed).choices(range(len(text) + 1), k=2))
        cases.append([text, *cuts])
    found = modules(
        """const { CodePoints, countCodePoints, findContext } = await import("/web/shared/offsets.js");
        return given.map(([text, start, end]) => {
            const points = new CodePoints(text);
            return [points.slice(start, end), countCodePoints(text), findContext(points, start, end).mention];
        });""",
        cases,
    )
    assert found == [[text[start:end], len(text), text[start:end]] for text, start, end in cases]


def test_context_is_cut_at_words(modules):
    text = f"{'before ' * 20}here{' after' * 20}"
    start = text.index("here")
    found = modules(
        """const { CodePoints, findContext } = await import("/web/shared/offsets.js");
        return findContext(new CodePoints(given[0]), given[1], given[1] + 4);""",
        [text, start],
    )
    assert found["mention"] == "here"
    assert found["before"].startswith("…before before")
    assert found["after"].endswith(" after…")
    assert len(found["before"]) < 60


def test_relation_is_hidden_with_its_entities(modules):
    entities = [
        {"id": n, "text": str(n), "label": "A", "start": n, "end": n + 1, "score": s}
        for n, s in enumerate((0.9, 0.3, None))
    ]
    relations = [
        {"head": head, "tail": tail, "label": "r", "score": score}
        for head, tail, score in ((0, 1, 0.9), (0, 2, 0.9), (2, 0, 0.2), (2, 0, None))
    ]
    found = modules(
        """const { filterByScore } = await import("/service/page/annotations.js"); return filterByScore(given, 0.5);""",
        {"id": "", "text": "012", "sentences": [], "entities": entities, "relations": relations},
    )
    assert [(e["id"], e["text"]) for e in found["entities"]] == [(0, "0"), (1, "2")]
    assert [(r["head"], r["tail"], r["score"]) for r in found["relations"]] == [(0, 1, 0.9), (1, 0, None)]


def test_thresholds_are_halved_down_to_the_minimum(modules):
    given = {
        "entity": 0.45,
        "subject": 0.05,
        "object": 0.08,
        "entity_types": {"Task": 0.6, "Rare": 0.01},
        "relation_types": {},
        "related": None,
    }
    code = """const { halveThresholds } = await import("/service/page/annotations.js");
        return halveThresholds(given, 0.05);"""
    lower = {
        "entity": 0.225,
        "subject": 0.05,
        "object": 0.05,
        "entity_types": {"Task": 0.3, "Rare": 0.01},
        "relation_types": {},
    }
    assert modules(code, given) == lower
    assert modules(code, {**given, "related": 0.28}) == {**lower, "related": 0.14}
    assert modules(code, {**given, "related": 0.03}) == {**lower, "related": 0.03}


def test_boxes_of_random_graphs_do_not_overlap(modules):
    graphs = []
    for seed in range(8):
        chosen = random.Random(seed)
        n = chosen.randrange(2, 26)
        nodes = [{"node": str(at), "name": "x" * chosen.randrange(1, 60), "label": "A", "weight": 1} for at in range(n)]
        pairs = [(a, b) for a in range(n) for b in range(a) if chosen.random() < 1.5 / n]
        edges = [
            {"edge": at, "head": str(a), "tail": str(b), "label": "used for", "n": 1, "symmetric": False}
            for at, (a, b) in enumerate(pairs)
        ]
        graphs.append({"centres": [], "nodes": nodes, "edges": edges})
    placed = modules(
        """const { Canvas } = await import("/web/shared/canvas.js");
        const { Labels } = await import("/web/shared/labels.js");
        const container = document.createElement("div");
        container.style.cssText = "width: 760px; height: 500px";
        document.body.append(container);
        const canvas = new Canvas(container, { onNode() {}, onNothing() {} });
        const boxes = () => canvas.cy.nodes().map((node) => ({ ...node.position(), ...node.data() }));
        return given.map((graph) => {
            const shown = [0, 1].map(() => {
                canvas.show({ centres: [], nodes: [], edges: [] }, new Labels());
                canvas.show(graph, new Labels());
                return boxes();
            });
            return shown;
        });""",
        graphs,
    )
    for boxes, again in placed:
        assert boxes == again
        for at, one in enumerate(boxes):
            for other in boxes[at + 1 :]:
                apart = abs(one["x"] - other["x"]) >= (one["width"] + other["width"]) / 2 - 1
                assert apart or abs(one["y"] - other["y"]) >= (one["height"] + other["height"]) / 2 - 1


def test_label_colours_match_the_drawing(modules):
    from cascade_srn.drawing.colours import colour_class

    labels = [f"L{n}" for n in range(20)]
    found = modules(
        """const { Labels } = await import("/web/shared/labels.js");
        const labels = new Labels({ entity_types: given, relation_types: [], symmetric: ["L3"] });
        const classes = [...given, "other"].map((one) => labels.entityClass(one));
        return [classes, labels.isDirected("L3"), labels.isDirected("L4")];""",
        labels,
    )
    assert found == [[colour_class(one, labels) for one in [*labels, "other"]], False, True]
