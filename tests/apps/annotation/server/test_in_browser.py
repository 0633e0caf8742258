"""Annotation in Chromium: mouse, keyboard, relations, suggestions, undo, saving, conflicts and the queue."""

import pytest
from tests.apps.annotation.server.made_project import LABELS, TEXTS, create_project, live_project, write_suggestions
from tests.apps.service.browsing import open_page
from tests.apps.web.live_app import until

from cascade_srn.formats.registry import read_documents

pytestmark = pytest.mark.browser


@pytest.fixture
def client(tmp_path):
    """A client of a service with a new project."""
    with live_project(create_project(tmp_path / "project")) as running:
        yield running


@pytest.fixture
def opened(browser, client):
    """Return a context manager that opens a document of the project."""

    def start(document, name="Ada", **options):
        return open_document(browser, client, document, name, **options)

    return start


def open_document(browser, client, document, name="Ada", **options):
    url = str(client.base_url).rstrip("/")
    storage = [{"name": "cascade-srn-annotator", "value": name}] if name else []
    state = {"cookies": [], "origins": [{"origin": url, "localStorage": storage}]}
    address = f"{url}/#document={document}" if document else f"{url}/"
    return open_page(browser, address, url=url, storage_state=state, reduced_motion="reduce", **options)


def settle(page):
    """Wait until a document is shown and everything is saved."""
    page.locator("#result[aria-busy=false]").wait_for()
    page.locator("#saved[data-state=saved]").wait_for()


def wait_for_document(page, id):
    until(lambda: page.locator("#document-title").inner_text() == id)
    settle(page)


def stored(client, document, name="Ada"):
    """Return the stored entities and relations as text, and the whole annotation."""
    answer = client.get(f"/api/documents/{document}", params={"annotator": name}).json()
    annotation, text = answer["annotation"], answer["text"]
    words = {e["id"]: text[e["start"] : e["end"]] for e in annotation["entities"]}
    entities = sorted((words[e["id"]], e["label"]) for e in annotation["entities"])
    relations = sorted((words[r["head"]], r["label"], words[r["tail"]]) for r in annotation["relations"])
    return entities, relations, annotation


def word(page, text, nth=0):
    """Return the element of a word."""
    return page.locator("#sheet .w").filter(has_text=text).nth(nth)


def drag(page, start, end):
    """Press the mouse on an element and release it on another one."""
    one, other = start.bounding_box(), end.bounding_box()
    page.mouse.move(one["x"] + one["width"] / 2, one["y"] + one["height"] / 2)
    page.mouse.down()
    page.mouse.move(other["x"] + other["width"] / 2, other["y"] + other["height"] / 2, steps=4)
    page.mouse.up()


def bar(page, label, nth=0):
    return page.locator("#sheet .bar").filter(has_text=label).nth(nth)


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)


def go_to(page, text):
    """Move the cursor to the first occurrence of a word, with the keyboard only."""
    words = page.locator("#sheet .w").all_inner_texts()
    page.locator("#sheet").focus()
    press(page, "Escape", "Escape", "ArrowRight", *["ArrowRight"] * words.index(text))
    assert page.locator("#sheet .w.cursor").inner_text() == text


def test_whole_way(browser, client, tmp_path):
    """Ten sentences, by mouse and by keyboard, with relations, undo, reload and export."""
    with open_document(browser, client, "short-1", name=None) as page:
        page.locator("#name").fill("Ada")
        press(page, "Enter")
        for n in range(1, 11):
            wait_for_document(page, f"short-{n}")
            if n % 2:
                word(page, "small").wait_for()
                drag(page, word(page, "small"), word(page, "classifier"))
                page.locator("#menu").get_by_role("button", name="Method").click()
                drag(page, word(page, "question"), word(page, "answering"))
                page.locator("#menu").get_by_role("button", name="Task").click()
                drag(page, bar(page, "Method"), bar(page, "Task"))
                page.locator("#menu").get_by_role("button", name="USED-FOR").click()
                page.locator("#sheet .arc-label").wait_for()
                settle(page)
                page.locator("#done").click()
            else:
                go_to(page, "small")
                press(page, "Shift+ArrowRight", "1")
                go_to(page, "question")
                press(page, "Shift+ArrowRight", "2")
                go_to(page, "small")
                press(page, "Enter")
                press(page, *["ArrowRight"] * 5, "Enter", "1")
                page.locator("#sheet .arc-label").wait_for()
                settle(page)
                press(page, "d")
        until(lambda: client.get("/api/project", params={"annotator": "Ada"}).json()["n_done"] == 10)
        settle(page)
        page.reload()
        settle(page)
        assert page.locator("#n-done").inner_text().startswith("10 of")
        page.locator("[data-id=short-1]").click()
        wait_for_document(page, "short-1")
        assert page.locator("#sheet .bar").all_inner_texts() == ["Method", "Task"]
        page.locator("#tab-exchange").click()
        with page.expect_download() as download:
            page.locator("#export").click()
        download.value.save_as(tmp_path / "exported.jsonl")
    expected = [("question answering", "Task"), ("small classifier", "Method")]
    for n in range(1, 11):
        entities, relations, annotation = stored(client, f"short-{n}")
        assert entities == expected
        assert relations == [("small classifier", "USED-FOR", "question answering")]
        assert annotation["state"] == "done"
    documents = list(read_documents(tmp_path / "exported.jsonl"))
    assert {document.id for document in documents} == {f"short-{n}" for n in range(1, 11)}
    assert all(len(document.entities) == 2 and len(document.relations) == 1 for document in documents)


def test_undo_and_redo(client, opened):
    with opened("tagging") as page:
        settle(page)
        go_to(page, "conditional")
        press(page, "Shift+ArrowRight", "Shift+ArrowRight", "1")
        settle(page)
        assert stored(client, "tagging")[0] == [("conditional random field", "Method")]
        press(page, "2")
        settle(page)
        assert stored(client, "tagging")[0] == [("conditional random field", "Task")]
        press(page, "Control+z")
        settle(page)
        assert stored(client, "tagging")[0] == [("conditional random field", "Method")]
        press(page, "Control+z")
        settle(page)
        assert stored(client, "tagging")[0] == []
        assert page.locator("#undo").is_disabled()
        press(page, "Control+Shift+z", "Control+y")
        settle(page)
        assert stored(client, "tagging")[0] == [("conditional random field", "Task")]
        page.locator("#undo").click()
        settle(page)
        assert stored(client, "tagging")[0] == [("conditional random field", "Method")]


def test_nested_entities_and_their_borders(client, opened):
    with opened("translation") as page:
        settle(page)
        drag(page, word(page, "Neural"), word(page, "languages"))
        press(page, "2")
        # A double click selects a word inside of an entity.
        word(page, "translation").first.dblclick()
        page.locator("#menu").get_by_role("button", name="Add the word before").click()
        page.locator("#menu").get_by_role("button", name="Method").click()
        settle(page)
        assert stored(client, "translation")[0] == [
            ("Neural machine translation of low-resource languages", "Task"),
            ("machine translation", "Method"),
        ]
        rows = [bar(page, label).bounding_box()["y"] for label in ("Task", "Method")]
        assert rows[0] < rows[1]
        # The selected entity is the inner one: its end and its start are moved.
        press(page, "Shift+ArrowLeft", "Alt+Shift+ArrowLeft")
        settle(page)
        assert ("Neural machine", "Method") in stored(client, "translation")[0]
        press(page, "Delete")
        settle(page)
        assert [label for _, label in stored(client, "translation")[0]] == ["Task"]


def test_relations_by_keyboard_and_clicks(client, opened):
    with opened("tagging") as page:
        settle(page)
        drag(page, word(page, "conditional"), word(page, "field"))
        press(page, "1")
        drag(page, word(page, "Finnish"), word(page, "news"))
        press(page, "3")
        word(page, "tagger").click()
        press(page, "1")
        bar(page, "Method").click()
        page.locator("#menu").get_by_role("button", name="Relate").click()
        bar(page, "Material").click()
        page.locator("#menu").get_by_role("button", name="COMPARE").click()
        settle(page)
        assert stored(client, "tagging")[1] == [("conditional random field", "COMPARE", "Finnish news")]
        # The same symmetric relation in the other direction is refused.
        bar(page, "Material").click()
        press(page, "r")
        bar(page, "Method").click()
        press(page, "3")
        page.locator("#status.problem").wait_for()
        press(page, "1")
        settle(page)
        assert ("Finnish news", "USED-FOR", "conditional random field") in stored(client, "tagging")[1]
        # The new relation is selected, and is turned around, relabelled and deleted.
        press(page, "f", "2")
        settle(page)
        assert ("conditional random field", "EVALUATE-FOR", "Finnish news") in stored(client, "tagging")[1]
        press(page, "x")
        settle(page)
        assert len(stored(client, "tagging")[1]) == 1
        # Entities of different sentences cannot be related.
        drag(page, bar(page, "Material"), bar(page, "Method", 1))
        page.locator("#status.problem").wait_for()
        press(page, "Escape")
        assert len(stored(client, "tagging")[1]) == 1


def test_suggestions_one_by_one(client, opened):
    with opened("parsing") as page:
        settle(page)
        assert page.locator("#n-open").inner_text() == "8 suggestions"
        page.locator("#sheet").focus()
        # Accept, reject (with its relation), change the label.
        press(page, "s", "a", "x", "3")
        settle(page)
        entities, relations, annotation = stored(client, "parsing")
        assert entities == [("graph parser", "Method"), ("semantic parsing", "Material")]
        assert relations == []
        assert sorted(entity["origin"] for entity in annotation["entities"]) == ["model", "person"]
        start = TEXTS["parsing"].index("beam search")
        assert annotation["rejected"] == [f"{start}:{start + len('beam search')}:Method"]
        # The relation to the changed entity is still open.
        assert page.locator("#sheet .arc-label").all_inner_texts() == ["USED-FOR 0.82"]
        page.locator("#sheet .arc-label").click()
        page.locator("#menu").get_by_role("button", name="Accept").click()
        settle(page)
        assert stored(client, "parsing")[1] == [("graph parser", "USED-FOR", "semantic parsing")]
        page.reload()
        settle(page)
        assert page.locator("#n-open").inner_text() == "3 suggestions"


def test_suggestions_all_at_once(client, opened):
    with opened("parsing") as page:
        settle(page)
        page.locator("#min-score").fill("0.9")
        assert page.locator("#accept-above").inner_text() == "Accept 2 ≥ 0.90"
        page.locator("#accept-above").click()
        settle(page)
        assert [words for words, _ in stored(client, "parsing")[0]] == ["graph parser", "semantic parsing"]
        page.locator("#sheet").focus()
        press(page, "A")
        settle(page)
        entities, relations, _ = stored(client, "parsing")
        assert (len(entities), len(relations)) == (6, 2)
        press(page, "Control+z", "X")
        settle(page)
        entities, relations, annotation = stored(client, "parsing")
        assert (len(entities), len(relations), len(annotation["rejected"])) == (2, 0, 6)
        assert page.locator("#sheet .bar.open").count() == 0


def test_accepted_relation_takes_its_entities(client, opened):
    with opened("parsing") as page:
        settle(page)
        page.locator("#sheet .arc-label", has_text="0.55").click()
        press(page, "a")
        settle(page)
        entities, relations, _ = stored(client, "parsing")
        assert entities == [("beam search", "Method"), ("graph parser", "Method")]
        assert relations == [("beam search", "USED-FOR", "graph parser")]


def test_offsets_of_emoji_and_combining_characters(client, opened):
    with opened("emoji") as page:
        settle(page)
        press(page, "Tab")
        page.locator("#accept-all").click()
        drag(page, word(page, "cafe"), word(page, "reviews"))
        press(page, "3")
        settle(page)
        entities, relations, _ = stored(client, "emoji")
        assert ("cafe\u0301 reviews", "Material") in entities
        assert relations == [("Word vectors", "USED-FOR", "sentiment analysis")]


def test_markup_in_texts_and_labels_is_text(browser, tmp_path):
    attack = "<img src=x onerror=boom()>"
    labels = {"entities": {attack: f"{attack} <b>bold</b>", "Other": ""}, "relations": {f"{attack}&": attack}}
    suggested = {"markup": ([("tag", attack, 0.9), ("method", "Other", 0.8)], [("tag", f"{attack}&", "method", 0.7)])}
    create_project(tmp_path / "project", labels=labels, suggested=suggested, guidelines=f"# {attack}\n\n**{attack}**")
    with live_project(tmp_path / "project") as client, open_document(browser, client, "markup", name=attack) as page:
        settle(page)
        assert TEXTS["markup"] in page.locator("#sheet .text").text_content()
        drag(page, word(page, "<"), word(page, ">"))
        page.locator("#menu .choice").first.click()
        for tab in ("labels", "guidelines", "list"):
            page.locator(f"#tab-{tab}").click()
            assert attack in page.locator(f"#panel-{tab}").inner_text()
        settle(page)
        assert (TEXTS["markup"][: len("<img/src=x onerror=boom()>")], attack) in stored(client, "markup", attack)[0]
        assert page.locator("main img, main script, main b").count() == 0


def test_queue_search_states_and_steps(client, opened):
    with opened("weather") as page:
        settle(page)
        page.locator("#nothing").click()
        wait_for_document(page, "short-1")
        assert stored(client, "weather")[2]["state"] == "done"
        page.locator("#sheet").focus()
        press(page, "p")
        wait_for_document(page, "weather")
        assert page.locator("#done").inner_text() == "Open again"
        page.locator("#done").click()
        settle(page)
        assert stored(client, "weather")[2]["state"] == "started"
        page.select_option("#state", "started")
        until(lambda: page.locator("#queue li").count() == 1)
        page.select_option("#state", "")
        press(page, "/")
        page.locator("#search").focus()
        page.keyboard.type("folk TALES")
        press(page, "Enter")
        wait_for_document(page, "translation")
        page.locator("#search").fill("zzzz")
        page.get_by_text("No documents found.").wait_for()


def test_note_is_saved(client, opened):
    with opened("weather") as page:
        settle(page)
        page.locator("#sheet").focus()
        press(page, "m")
        page.keyboard.type("Ask Bo about 👩‍🚀.")
        until(lambda: stored(client, "weather")[2]["note"] == "Ask Bo about 👩‍🚀.")
        page.locator("#tab-list").click()
        page.locator("#has-note").wait_for()
        page.reload()
        settle(page)
        assert page.locator("#note").input_value() == "Ask Bo about 👩‍🚀."


def test_saved_is_shown_only_after_the_answer(client, opened):
    # The browser logs the failed requests.
    with opened("weather", expected=["Failed to load resource"]) as page:
        settle(page)
        fails = True

        def answer(route):
            if fails:
                route.abort()
            else:
                route.continue_()

        page.route("**/annotation**", answer)
        word(page, "weather").click()
        press(page, "1")
        page.locator("#saved[data-state=failed]").wait_for()
        assert stored(client, "weather")[0] == []
        # The document stays open, and further changes are kept.
        press(page, "n")
        page.locator("#status.problem").wait_for()
        assert page.locator("#document-title").inner_text() == "weather"
        press(page, "2")
        fails = False
        page.get_by_role("button", name="Try again").click()
        settle(page)
        assert stored(client, "weather")[0] == [("weather", "Task")]
        assert page.locator("#notice").is_hidden()


@pytest.mark.parametrize("choice", ["load-theirs", "keep-mine"])
def test_conflict_of_two_tabs(client, opened, choice):
    with opened("weather") as first, opened("weather", expected=["409"]) as second:
        settle(first)
        settle(second)
        word(first, "weather").click()
        press(first, "1")
        settle(first)
        word(second, "mild").click()
        press(second, "2")
        second.locator("#conflict-dialog").wait_for()
        sides = second.locator("#conflict-sides section").all_inner_texts()
        assert "mild" in sides[0]
        assert "weather" in sides[1]
        assert stored(client, "weather")[0] == [("weather", "Method")]
        second.locator(f"#{choice}").click()
        settle(second)
        kept = [("weather", "Method")] if choice == "load-theirs" else [("mild", "Task")]
        assert stored(client, "weather")[0] == kept
        assert second.locator("#sheet .bar").count() == 1
        # Further changes are saved.
        word(second, "week").click()
        press(second, "3")
        settle(second)
        assert len(stored(client, "weather")[0]) == 2


def test_new_suggestions_appear_without_a_reload(client, opened, tmp_path):
    with opened("weather") as page:
        settle(page)
        suggested = {"short-1": ([("small classifier", "Method", 0.9)], [])}
        write_suggestions(tmp_path / "project", suggested, name="run-00002")
        press(page, "n")
        wait_for_document(page, "short-1")
        assert page.locator("#sheet .bar.open").all_inner_texts() == ["Method 0.90"]


def test_labels_have_definitions(opened):
    with opened("weather") as page:
        settle(page)
        page.locator("#tab-labels").click()
        assert LABELS["entities"]["Metric"] in page.locator("#panel-labels").inner_text()
        page.locator("#tab-guidelines").click()
        assert page.locator("#panel-guidelines strong").inner_text() == "every"
        assert page.locator("#panel-guidelines li").count() == 2
        press(page, "?")
        page.locator("#keys-dialog").wait_for()
        press(page, "Escape")
        assert page.locator("#keys-dialog").is_hidden()
