"""Training, agreement, adjudication, export and import in Chromium, and the looks of the page."""

import json
import re
import time

import pytest
from tests.apps.annotation.clauses import clauses
from tests.apps.annotation.server.made_project import TEXTS, create_project, live_project
from tests.apps.annotation.server.test_in_browser import open_document, press, settle, stored, wait_for_document, word
from tests.apps.service.browsing import trained_extractor
from tests.apps.web.live_app import until
from tests.cli.conftest import run
from tests.drawing.browser import scrolls_sideways
from tests.evaluation.report.test_in_browser import CONTRASTS
from tests.twelve_sentences import SCHEMA

from cascade_srn import TrainingSettings, train
from cascade_srn.apps.annotation.annotations import Annotation, EntityMark, ProjectLabels, RelationMark
from cascade_srn.apps.annotation.files import without_annotations
from cascade_srn.apps.annotation.project import Project, ProjectSettings
from cascade_srn.apps.web.settings import ServeSettings
from cascade_srn.formats.registry import read_documents
from cascade_srn.model.folder import read_precision
from cascade_srn.schema import Schema

pytestmark = pytest.mark.browser

# For a real training on a loaded machine.
TRAINING_SECONDS = 900
POINT = {
    **{"n_sentences": 20, "ner": 0.5, "ner_low": 0.4, "ner_high": 0.6, "re": None, "re_low": None, "re_high": None},
    **{"n_held_out": 9, "n_held_out_documents": 4, "unit": "document", "time": "2026-01-02T03:04:05+00:00"},
}


# Returns visible controls without a name for screen readers.
UNNAMED = """() => Array.from(document.querySelectorAll("button, select, input, textarea"))
    .filter((one) => one.checkVisibility())
    .filter((one) => !(one.innerText?.trim() && one.tagName === "BUTTON") && !one.ariaLabel && !one.labels?.length)
    .map((one) => one.outerHTML)"""


def annotate(folder, document, name, entities, relations=()):
    """Store an annotation that is done. Relations are (head, label, tail) with positions of entities."""
    text = TEXTS[document]
    marks = tuple(
        EntityMark(f"e{n}", text.index(phrase), text.index(phrase) + len(phrase), label)
        for n, (phrase, label) in enumerate(entities)
    )
    links = tuple(
        RelationMark(f"r{n}", f"e{head}", f"e{tail}", label) for n, (head, label, tail) in enumerate(relations)
    )
    with Project.open(folder) as project:
        project.save(document, name, Annotation(0, "done", "", marks, links))


@pytest.fixture
def annotated(tmp_path):
    """A client of a project with two annotators, a suggestion and two training runs."""
    folder = create_project(tmp_path / "project")
    field, news, f1, task = "conditional random field", "Finnish news", "F1", "named entities"
    annotate(
        folder, "tagging", "Ada", [(field, "Method"), (news, "Material"), (f1, "Metric"), (task, "Task")],
        [(0, "USED-FOR", 3)],
    )  # fmt: skip
    annotate(folder, "tagging", "Bo", [(field, "Method"), ("news", "Material"), (f1, "Metric")])
    annotate(folder, "translation", "Ada", [("BLEU", "Metric")])
    annotate(folder, "translation", "Bo", [("BLEU", "Metric")])
    (folder / "training").mkdir()
    later = {**POINT, "n_sentences": 60, "ner": 0.7, "ner_low": 0.6, "ner_high": 0.8}
    curve = "".join(f"{json.dumps(point)}\n" for point in (POINT, later))
    (folder / "training" / "curve.jsonl").write_text(curve, encoding="utf-8")
    with live_project(folder) as client:
        yield client


def test_curve_with_intervals(annotated, browser):
    with open_document(browser, annotated, "parsing") as page:
        settle(page)
        page.locator("#tab-training").click()
        page.locator("svg.curve").first.wait_for()
        assert page.locator("svg.curve circle.of-entity").count() == 2
        assert page.locator("svg.curve circle.of-relation").count() == 0
        assert page.locator("svg.curve .band.of-entity").count() == 1
        rows = page.locator(".numbers-table tbody tr").all_inner_texts()
        assert rows[0].split("\t")[:4] == ["60", "70.0 (60.0–80.0)", "–", "9"]
        assert "held-out" in page.locator("#curve-note").inner_text()


@pytest.mark.slow
def test_sixteen_clauses_with_own_labels_give_suggestions(tmp_path, browser):
    folder = tmp_path / "clauses"
    documents = [one if n < 20 else without_annotations(one) for n, one in enumerate(clauses(80))]
    labels = ProjectLabels(Schema.from_documents(documents[:20]))
    with Project.create(folder, documents, labels) as project:
        n_train = sum(not project.is_held_out(one.id) for one in documents[:20])
    assert n_train == 16
    with live_project(folder) as client, open_document(browser, client, "clause-30") as page:
        settle(page)
        page.locator("#tab-training").click()
        until(lambda: "16 annotated documents" in page.locator(".training p.help").inner_text())
        page.locator("#train").click()
        page.locator("#training-state", has_text="Training is finished").wait_for(timeout=1000 * TRAINING_SECONDS)
        state = page.locator("#training-state").inner_text()
        found = re.search(r"suggests entities in (\d+) of 60 open documents", state)
        assert found, state
        assert int(found[1]) >= 30
        page.locator("#tab-annotate").click()
        until(lambda: "suggestion" in page.locator("#n-open").inner_text())


def test_promised_precision(annotated, browser):
    curves = [
        {"task": "ner", "measured": [[0.9, 1, 0.2], [0.5, 0.8, 0.6]], "promised": [[0.7, 0.8, 0.4], [0.6, 0, 0.6]]},
        {"task": "re_strict", "measured": [[0.9, 0.5, 0.1]], "promised": []},
    ]
    with open_document(browser, annotated, "parsing") as page:
        settle(page)
        status = annotated.get("/api/training").json() | {"precision_curves": curves}
        page.route("**/api/training", lambda route: route.fulfill(json=status))
        page.locator("#tab-training").click()
        note = page.locator("#precision-note")
        note.wait_for()
        assert "up to 70.0 % can be promised, with a recall of 40.0 %" in note.inner_text()
        assert "Relations: no precision can be promised" in note.inner_text()
        points = page.locator("svg.curve .promised.of-entity")
        places = [float(point.get_attribute(name)) for point in points.all() for name in ("cx", "cy")]
        assert places == pytest.approx([44 + 580 * 0.4, 14 + 246 * 0.3, 44 + 580 * 0.6, 14 + 246 * 0.4])
        assert page.evaluate(CONTRASTS) == []


def test_decisions_on_suggestions_calibrate_the_model(browser, tmp_path, capsys):
    """The bundled model suggests, a person decides in the page, and the decisions become its statistics."""
    texts = {name: TEXTS[name] for name in ("parsing", "tagging")}
    folder = create_project(tmp_path / "project", texts=texts, suggested={}, model="scierc-small")
    with live_project(folder) as client, open_document(browser, client, "parsing") as page:
        wait_for_suggestions(client, page, "parsing")
        suggested = client.get("/api/documents/parsing").json()["suggestions"]
        page.locator("#sheet").focus()
        # The first entity is wrong, with its relations, and the others are right.
        press(page, "s", "x", "A")
        settle(page)
        (entities, relations, annotation) = stored(client, "parsing")
        assert len(annotation["rejected"]) == 1
        page.locator("#done").click()
        until(lambda: stored(client, "parsing")[2]["state"] == "done")
        page.locator("#tab-exchange").click()
        page.select_option("#export-format", "review")
        with page.expect_download() as download:
            page.locator("#export").click()
        assert download.value.suggested_filename == "project-review.jsonl"
        download.value.save_as(tmp_path / "review.jsonl")
    calibrate = ("calibrate", "scierc-small", tmp_path / "review.jsonl", "--reviewed", "--output", tmp_path / "model")
    assert run(*calibrate) == 0
    shown = capsys.readouterr().out
    assert f"{len(entities)} of {len(entities) + 1} entities are right" in shown
    assert f"{len(relations)} of {len(suggested['relations'])} relations are right" in shown
    assert len(suggested["entities"]) == len(entities) + 1
    record = read_precision(tmp_path / "model")
    assert (record.source, record.n_documents) == ("review", 1)


def test_progress_and_cancelling_of_training(annotated, browser):
    """The states of training come from the test, because a real one takes too long."""
    status = {"state": "running", "epoch": 3, "n_epochs": 12, "seconds": 7, "message": "", "curve": [], "note": ""}

    asked = []

    def answer(route):
        asked.append((route.request.method, route.request.url))
        if route.request.method == "DELETE":
            status.update(state="cancelled", message="Training was cancelled")
        route.fulfill(json=status)

    with open_document(browser, annotated, "parsing") as page:
        settle(page)
        page.route("**/api/training*", answer)
        page.locator("#tab-training").click()
        until(lambda: "epoch 3 of 12" in page.locator("#training-state").inner_text())
        assert page.locator("#training-bar").get_attribute("value") == "0.25"
        assert page.locator("#tab-training").inner_text() == "Training 25 %"
        assert page.locator("#train").is_hidden()
        status["epoch"] = 6
        until(lambda: page.locator("#training-bar").get_attribute("value") == "0.5")
        page.locator("#cancel-training").click()
        page.locator("#train").wait_for()
        assert "cancelled" in page.locator("#training-state").inner_text()
        assert page.locator("#tab-training").inner_text() == "Training"
        page.locator("#train-raw").check()
        page.locator("#train").click()
        until(lambda: any(method == "POST" and url.endswith("?raw=true") for method, url in asked))


def test_agreement_and_adjudication(annotated, browser):
    with open_document(browser, annotated, "parsing", expected=["favicon"]) as page:
        settle(page)
        page.locator("#tab-agreement").click()
        page.locator(".case").wait_for()
        assert page.locator(".case h4").all_inner_texts() == ["tagging"]
        assert "named entities" in page.locator(".differences").inner_text()
        page.get_by_role("button", name="Decide").click()
        disputed = page.locator(".disputed li")
        disputed.first.wait_for()
        assert disputed.count() == 4
        # A relation brings its entities with it, and disappears with them.
        box = disputed.filter(has_text="USED-FOR").locator("input")
        entity = disputed.filter(has_text="Task").locator("input")
        box.check()
        assert entity.is_checked()
        entity.uncheck()
        assert not box.is_checked()
        box.check()
        disputed.filter(has_text="Finnish").locator("input").check()
        page.get_by_role("button", name="Save decision").click()
        until(lambda: stored(annotated, "tagging", "adjudicated")[2]["version"] == 1)
        entities, relations, annotation = stored(annotated, "tagging", "adjudicated")
        assert len(entities) == 4
        assert relations == [("conditional random field", "USED-FOR", "named entities")]
        assert annotation["state"] == "done"
        # The decision can be changed by hand.
        page.get_by_role("button", name="Decide").click()
        page.get_by_role("button", name="Edit by hand").click()
        wait_for_document(page, "tagging")
        word(page, "subword").click()
        press(page, "1")
        settle(page)
        assert ("subword", "Method") in stored(annotated, "tagging", "adjudicated")[0]
        assert ("subword", "Method") not in stored(annotated, "tagging", "Ada")[0]


def test_export_and_import(annotated, browser, tmp_path):
    with open_document(browser, annotated, "parsing", name="Cy") as page:
        settle(page)
        page.locator("#tab-exchange").click()
        page.select_option("#export-annotator", "Ada")
        page.select_option("#export-format", "brat")
        with page.expect_download() as download:
            page.locator("#export").click()
        assert download.value.suggested_filename.endswith(".zip")
        download.value.save_as(tmp_path / "ada.zip")
        page.select_option("#import-format", "brat")
        page.set_input_files("#import-file", tmp_path / "ada.zip")
        page.locator("#import").click()
        until(lambda: "2 annotations" in page.locator("#imported").inner_text())
        page.locator("#result[aria-busy=false]").wait_for()
        assert stored(annotated, "tagging", "Cy")[:2] == stored(annotated, "tagging", "Ada")[:2]


def test_key_is_asked_for(browser, tmp_path):
    folder = create_project(tmp_path / "project")
    settings = ServeSettings(port=0, api_key="secret")
    with live_project(folder, settings) as client, open_document(browser, client, "weather", expected=["401"]) as page:
        page.locator("#key").fill("secret")
        press(page, "Enter")
        wait_for_document(page, "weather")
        word(page, "weather").click()
        press(page, "1")
        settle(page)
        with Project.open(folder, read_only=True) as project:
            assert len(project.annotation("weather", "Ada").entities) == 1


def test_finger_on_a_phone(annotated, browser):
    with open_document(browser, annotated, "weather", width="phone", has_touch=True) as page:
        settle(page)
        word(page, "weather").tap()
        page.locator("#menu").get_by_role("button", name="Add the word before").tap()
        page.locator("#menu").get_by_role("button", name="Task").tap()
        settle(page)
        assert stored(annotated, "weather")[0] == [("The weather", "Task")]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", ["desktop", "phone"])
def test_looks(annotated, browser, width, theme):
    with open_document(browser, annotated, "parsing", width=width, theme=theme) as page:
        settle(page)
        page.locator("#sheet .bar").first.click()
        page.locator("#menu").wait_for()
        views = [("annotate", "#menu"), ("training", "svg.curve"), ("agreement", ".case"), ("exchange", "#export")]
        for name, part in views:
            if name != "annotate":
                page.locator(f"#tab-{name}").click()
            page.locator(part).first.wait_for()
            assert page.evaluate(CONTRASTS) == []
            assert page.evaluate(UNNAMED) == []
            assert not scrolls_sideways(page)


@pytest.mark.slow
def test_retrain_accept_and_train_on_the_export(browser, tmp_path):
    """Fine-tune a tiny model in the page, accept its suggestions, export them and train on the file."""
    names = (
        "Ada Berg leads Norlux in Oslo.",
        "Mona Lind leads the University of Turku.",
        "Tim Falk leads Rivon in Bergen.",
    )
    texts = {f"text-{n}": names[n % 3] for n in range(9)}
    extractor = trained_extractor()
    extractor.save_pretrained(tmp_path / "model")
    labels = {"entities": list(SCHEMA.entity_types), "relations": list(SCHEMA.relation_types)}
    settings = ProjectSettings(epochs=1, held_out=0.2)
    folder = create_project(
        tmp_path / "project", labels=labels, texts=texts, suggested={}, settings=settings, model=tmp_path / "model"
    )
    with live_project(folder) as client, open_document(browser, client, "text-0") as page:
        settle(page)
        for n in range(4):
            page.locator(f"[data-id=text-{n}]").click()
            wait_for_document(page, f"text-{n}")
            wait_for_suggestions(client, page, f"text-{n}")
            page.locator("#accept-all").click()
            settle(page)
            assert len(stored(client, f"text-{n}")[0]) >= 2
            page.locator("#done").click()
            until(lambda n=n: stored(client, f"text-{n}")[2]["state"] == "done")
        page.locator("#tab-training").click()
        page.locator("#train").click()
        wait_for_training(client)
        page.locator("svg.curve").first.wait_for()
        page.locator("#tab-annotate").click()
        page.locator("[data-id=text-8]").click()
        wait_for_document(page, "text-8")
        page.locator("#accept-all").click()
        settle(page)
        page.locator("#done").click()
        until(lambda: stored(client, "text-8")[2]["state"] == "done")
        page.locator("#tab-exchange").click()
        with page.expect_download() as download:
            page.locator("#export").click()
        download.value.save_as(tmp_path / "exported.jsonl")
    documents = list(read_documents(tmp_path / "exported.jsonl"))
    assert {"text-0", "text-8"} <= {document.id for document in documents}
    steps = list(train(extractor.model, documents, settings=TrainingSettings(epochs=1)))
    assert steps[-1].finished


def wait_for_suggestions(client, page, document):
    """Wait until the model has come to a document, and the page shows what it found."""
    _wait(lambda: client.get(f"/api/documents/{document}").json()["suggestions"]["entities"])
    page.reload()
    wait_for_document(page, document)
    page.locator("#sheet .bar.open").first.wait_for()


def wait_for_training(client):
    _wait(lambda: client.get("/api/training").json()["state"] not in ("idle", "running"))
    assert client.get("/api/training").json()["state"] == "done"


def _wait(condition):
    # Starting a process that loads the model takes long on a busy machine.
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.5)
