"""The page: text input, score filter, selection, and the four views of the result."""

from xml.etree import ElementTree

import pytest
from tests.apps.service.browsing import (
    ATTACK,
    CY,
    EMOJI,
    TEXT,
    click_node,
    enter_text,
    expected_drawing,
    open_page,
    read_drawing,
    read_triples,
    sent_bodies,
    set_min_score,
    show_graph,
    trained_extractor,
    wait_for_result,
)
from tests.apps.service.live import live

from cascade_srn import Thresholds

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def url(browser):
    with live(trained_extractor()) as running:
        yield running.url


@pytest.fixture(scope="module")
def document():
    return trained_extractor().extract(TEXT)


# Drops a file onto the page, and stores whether the overlay was visible before the drop.
DROP = """(text) => {
    const carried = new DataTransfer();
    carried.items.add(new File([text], "dropped.txt", {type: "text/plain"}));
    const drag = (type) => document.body.dispatchEvent(new DragEvent(type, {dataTransfer: carried, bubbles: true}));
    drag("dragenter");
    window.veiled = !document.querySelector("#drop").hidden;
    drag("drop");
}"""


def relations_of(document, text):
    return [(r.head.text, r.label, r.tail.text) for r in document.relations if text in (r.head.text, r.tail.text)]


def card_relations(page):
    return page.locator("#card .of-card li").evaluate_all(
        """(items) => items.map((item) => {
            const ends = Array.from(item.querySelectorAll("bdi"), (end) => end.textContent);
            return [ends[0], item.querySelector(".relation > span").textContent, ends[1]];
        })"""
    )


class TestText:
    def test_result_is_drawn_while_typing(self, browser, url, document):
        assert len(document.entities) >= 8
        assert len(document.relations) >= 5
        with open_page(browser, url) as page:
            assert page.locator("#empty").is_visible()
            assert page.locator("#tabs").is_hidden()
            page.fill("#text", TEXT[:-9])
            page.locator("#text").press_sequentially(TEXT[-9:])
            wait_for_result(page)
            assert read_drawing(page) == expected_drawing(document)
            assert page.locator("#status").inner_text() == (
                f"{len(document.entities)} entities, {len(document.relations)} relations"
            )
            # Requests are sent only after a pause in typing.
            assert 1 <= len(sent_bodies(page, "/extract")) < 9
            assert sent_bodies(page, "/extract")[-1] == {"text": TEXT, "overlaps": "all"}

    def test_late_answer_is_dropped(self, browser, url):
        with open_page(browser, url) as page:
            late = []

            def hold_first(route):
                late.append(route) if "Turku" in route.request.post_data else route.continue_()

            page.route("**/extract", hold_first)
            with page.expect_request("**/extract"):
                page.fill("#text", TEXT)
            assert page.locator("#result").get_attribute("aria-busy") == "true"
            enter_text(page, "In Bergen it rained.")
            (first,) = late
            first.continue_()
            page.wait_for_timeout(300)
            assert read_drawing(page) == (["Bergen: Place"], [])
            assert page.locator("#text").input_value() == "In Bergen it rained."

    def test_examples_and_clearing(self, browser, url):
        with open_page(browser, url) as page:
            page.locator(".example").nth(1).click()
            wait_for_result(page)
            first = page.locator("#text").input_value()
            assert len(first) > 200
            page.locator(".chip").nth(2).click()
            wait_for_result(page)
            second = page.locator("#text").input_value()
            assert second != first
            assert [body["text"] for body in sent_bodies(page, "/extract")] == [first, second]
            page.click("#clear")
            assert page.locator("#empty").is_visible()
            assert page.locator("#text").input_value() == ""
            assert page.evaluate("document.activeElement.id") == "text"

    def test_files_are_opened_and_dropped(self, browser, url, tmp_path):
        with open_page(browser, url) as page:
            path = tmp_path / "text.txt"
            path.write_text("In Bergen it rained.", encoding="utf-8")
            page.set_input_files("#file", path)
            wait_for_result(page)
            assert read_drawing(page)[0] == ["Bergen: Place"]
            with page.expect_response("**/draw"):
                page.evaluate(DROP, TEXT)
            wait_for_result(page)
            assert page.locator("#text").input_value() == TEXT
            assert page.evaluate("window.veiled")
            assert page.locator("#drop").is_hidden()
            path.write_bytes(b"%PDF-1.7 \xff\xfe")
            page.set_input_files("#file", path)
            page.get_by_text("text.txt").wait_for()
            assert page.locator("#text").input_value() == TEXT

    def test_markup_in_text_is_escaped(self, browser, url):
        document = trained_extractor().extract(ATTACK)
        assert any("<img" in entity.text for entity in document.entities)
        assert document.relations
        with open_page(browser, url) as page:
            page.evaluate("void (window.boom = () => { window.harmed = true; })")
            enter_text(page, ATTACK)
            assert read_drawing(page) == expected_drawing(document)
            for view in ("triples", "entities", "graph"):
                if view == "graph":
                    show_graph(page)
                    click_node(page, document.entities[0].text)
                else:
                    page.click(f"#tab-{view}")
                    page.locator(f"#view-{view} .entity").first.click()
                page.locator("#card h3").wait_for()
                page.keyboard.press("Escape")
            page.click("#tab-triples")
            assert read_triples(page) == [(r.head.text, r.label, r.tail.text) for r in document.relations]
            assert page.evaluate("window.harmed") is None
            assert page.locator("main img, main script").count() == 0

    def test_offsets_after_emoji(self, browser, url):
        document = trained_extractor().extract(EMOJI)
        assert [entity.text for entity in document.entities] == ["Ada Berg", "Norlux", "Oslo"]
        with open_page(browser, url) as page:
            enter_text(page, EMOJI)
            assert read_drawing(page) == expected_drawing(document)
            assert page.locator("#count").inner_text() == f"{len(EMOJI)} characters"
            page.locator("#view-drawing .bar", has_text="Organization").click()
            mention = page.locator("#card .mentions li")
            assert mention.locator("mark").inner_text() == "Norlux"
            assert mention.inner_text().startswith("👩‍🚀🚀 Ada Berg leads 😀 Norlux in Oslo.")


class TestScores:
    def test_slider_hides_low_scores_without_a_request(self, browser, url, document):
        with open_page(browser, url) as page:
            enter_text(page, TEXT)
            marks = page.locator("#strip line").evaluate_all("(all) => all.map((one) => Number(one.dataset.score))")
            scores = [one.score for one in (*document.entities, *document.relations)]
            assert marks == pytest.approx(scores)
            counts, n_relations = set(), len(document.relations)
            for min_score in (0.45, 0.5, 0.8):
                set_min_score(page, min_score)
                shown = expected_drawing(document, min_score)
                assert read_drawing(page) == shown
                assert page.locator("#n-entities").inner_text() == str(len(shown[0]))
                assert page.locator("#n-relations").inner_text() == str(len(shown[1]))
                assert f"{min_score:.2f}" in page.locator("#min-score-value").inner_text()
                assert page.locator("#status").inner_text().endswith(f"{len(shown[1])} of {n_relations} relations")
                counts.add((len(shown[0]), len(shown[1])))
            assert len(counts) == 3
            page.click("#tab-triples")
            set_min_score(page, 0.45)
            kept = [(r.head.text, r.label, r.tail.text) for r in document.relations if r.score >= 0.45]
            assert read_triples(page) == kept
            set_min_score(page, 0)
            assert read_drawing(page) == expected_drawing(document)
            assert len(sent_bodies(page, "/extract")) == 1

    def test_checkbox_halves_the_thresholds(self, browser, url):
        text = "Kiruna leads Bergen, husband of Oslo, in Museum of Norlux."
        lower = trained_extractor().extract(text, thresholds=Thresholds(entity=0.25, subject=0.25, object=0.25))
        own = trained_extractor().extract(text)
        assert len(lower.entities) > len(own.entities)
        with open_page(browser, url) as page:
            enter_text(page, text)
            assert read_drawing(page) == expected_drawing(own)
            assert "0.25 instead of 0.50" in page.locator("#lower-thresholds-help").inner_text()
            with page.expect_response("**/draw"):
                page.check("#lower-thresholds")
            wait_for_result(page)
            assert read_drawing(page) == expected_drawing(lower)
            lowered = {"entity": 0.25, "subject": 0.25, "object": 0.25, "entity_types": {}, "relation_types": {}}
            assert sent_bodies(page, "/extract")[-1] == {"text": text, "thresholds": lowered, "overlaps": "all"}
            with page.expect_response("**/draw"):
                page.uncheck("#lower-thresholds")
            wait_for_result(page)
            assert read_drawing(page) == expected_drawing(own)
            assert len(sent_bodies(page, "/extract")) == 2

    def test_overlapping_entities(self, browser, url, document):
        flat = trained_extractor().extract(TEXT, overlaps="flat")
        assert len(flat.entities) < len(document.entities)
        with open_page(browser, url) as page:
            enter_text(page, TEXT)
            assert page.locator("#overlaps").input_value() == "all"  # the default of the service
            assert read_drawing(page) == expected_drawing(document)
            helps = {page.locator("#overlaps-help").inner_text()}
            for overlaps, expected in (("flat", flat), ("all", document), ("flat", flat)):
                with page.expect_response("**/draw"):
                    page.select_option("#overlaps", overlaps)
                wait_for_result(page)
                assert read_drawing(page) == expected_drawing(expected)
                helps.add(page.locator("#overlaps-help").inner_text())
            assert len(helps) == 2
            bodies = sent_bodies(page, "/extract")
            # Known answers are not requested again.
            assert bodies == [{"text": TEXT, "overlaps": "all"}, {"text": TEXT, "overlaps": "flat"}]


class TestSelection:
    def test_click_shows_the_relations_of_an_entity(self, browser, url, document):
        with open_page(browser, url) as page:
            enter_text(page, TEXT)
            page.locator("#view-drawing .bar[title^='Norlux:']").click()
            assert page.locator("#card h3").inner_text() == "Norlux"
            expected = relations_of(document, "Norlux")
            assert len(expected) == 2
            assert [tuple(one) for one in card_relations(page)] == expected
            lit = page.locator("#view-drawing .curve.selected > b").evaluate_all("(all) => all.map((b) => b.title)")
            relations = sorted(one.partition(", score")[0] for one in lit)
            assert relations == ["Ada Berg — leads → Norlux", "Norlux — located-in → Oslo"]
            faded = page.locator("#view-drawing .curve:not(.selected)").first
            faded.evaluate("(curve) => Promise.all(curve.getAnimations().map((one) => one.finished))")
            assert float(faded.evaluate("(curve) => getComputedStyle(curve).opacity")) < 0.5
            # Select the other entity of a relation from the card, then remove the selection.
            page.locator("#card .entity", has_text="Oslo").click()
            assert page.locator("#card h3").inner_text() == "Oslo"
            page.keyboard.press("Escape")
            assert page.locator("#card").is_hidden()
            assert page.locator("#view-drawing .selected").count() == 0

    def test_click_on_nested_entities(self, browser, url):
        with open_page(browser, url) as page:
            enter_text(page, TEXT)
            drawing = page.locator("#view-drawing")
            drawing.locator(".word", has_text="Turku").click()
            assert page.locator("#card h3").inner_text() == "University of Turku"
            drawing.locator(".bar[title^='Turku:']").click()
            assert page.locator("#card h3").inner_text() == "Turku"
            drawing.locator(".bar[title^='Turku:']").click()
            assert page.locator("#card").is_hidden()


class TestLists:
    def test_triples(self, browser, url, document):
        with open_page(browser, url) as page:
            enter_text(page, TEXT)
            page.click("#tab-triples")
            assert read_triples(page) == [(r.head.text, r.label, r.tail.text) for r in document.relations]
            scores = page.locator("#view-triples td.score").all_inner_texts()
            assert scores == [f"{r.score:.2f}" for r in document.relations]
            page.locator("#view-triples .entity", has_text="Rivon").first.click()
            assert page.locator("#card h3").inner_text() == "Rivon"
            assert page.locator("#view-triples tr.faded").count() == len(document.relations) - 2
            assert page.evaluate("document.activeElement.textContent") == "Rivon Organization"

    def test_mentions_with_the_same_words_and_type_are_grouped(self, browser, url):
        text = "Kiruna wins in Kiruna."
        found = {(entity.text, entity.label) for entity in trained_extractor().extract(text).entities}
        assert found == {("Kiruna", "Organization"), ("Kiruna", "Place")}
        with open_page(browser, url) as page:
            enter_text(page, text)
            page.click("#tab-entities")
            rows = page.locator("#view-entities tbody tr").all_inner_texts()
            assert sorted(" ".join(row.split()[:4]) for row in rows) == [
                "Kiruna Organization 1 mention",
                "Kiruna Place 2 mentions",
            ]

    def test_nothing_found(self, browser, url):
        with open_page(browser, url) as page:
            enter_text(page, "Nobody answered.")
            page.click("#tab-triples")
            assert page.locator("#view-triples .nothing").is_visible()
            page.click("#tab-graph")
            assert page.locator("#view-graph .nothing").is_visible()


class TestGraph:
    def test_entities_are_nodes_and_relations_edges(self, browser, url, document):
        with open_page(browser, url, reduced_motion="reduce") as page:
            enter_text(page, TEXT)
            show_graph(page)
            nodes = page.evaluate(f"{CY}.nodes().map((node) => `${{node.data('name')}}: ${{node.data('label')}}`)")
            assert sorted(nodes) == sorted({f"{entity.text}: {entity.label}" for entity in document.entities})
            edges = page.evaluate(f"""{CY}.edges().map((edge) =>
                `${{edge.source().data("name")}} — ${{edge.data("label")}} → ${{edge.target().data("name")}}`)""")
            assert sorted(edges) == expected_drawing(document)[1]
            click_node(page, "Norlux")
            page.locator("#card h3").wait_for()
            assert page.locator("#card h3").inner_text() == "Norlux"
            bright = f"{CY}.nodes().not('.faded').map((node) => node.data('name')).sort()"
            assert page.evaluate(bright) == ["Ada Berg", "Norlux", "Oslo"]
            assert page.evaluate(f"{CY}.edges().not('.faded').length") == 2
            page.keyboard.press("Escape")
            assert page.locator("#card").is_hidden()
            assert page.evaluate(f"{CY}.elements('.faded').length") == 0

    def test_graph_follows_the_minimum_score(self, browser, url, document):
        with open_page(browser, url, reduced_motion="reduce") as page:
            enter_text(page, TEXT)
            show_graph(page)
            n_nodes = page.evaluate(f"{CY}.nodes().length")
            set_min_score(page, 0.95)
            assert page.evaluate(f"{CY}.nodes().length") < n_nodes
            set_min_score(page, 0)
            assert page.evaluate(f"{CY}.nodes().length") == n_nodes

    def test_arrow_keys_move_between_nodes(self, browser, url):
        with open_page(browser, url, reduced_motion="reduce") as page:
            enter_text(page, TEXT)
            show_graph(page)
            page.keyboard.press("Tab")
            page.locator("#canvas").focus()
            first = page.locator("#focused").text_content()
            moves = ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp")
            reached = [page.keyboard.press(key) or page.locator("#focused").text_content() for key in moves]
            assert len({first, *reached}) > 1
            page.keyboard.press("Enter")
            assert reached[-1].startswith(f"{page.locator('#card h3').inner_text()}, ")
            assert page.evaluate("document.activeElement.id") == "canvas"
            zoom = page.evaluate(f"{CY}.zoom()")
            page.keyboard.press("+")
            assert page.evaluate(f"{CY}.zoom()") > zoom
            page.keyboard.press("0")

    def test_picture(self, browser, url, document):
        with open_page(browser, url, reduced_motion="reduce") as page:
            enter_text(page, TEXT)
            show_graph(page)
            with page.expect_download() as saved:
                page.click("#get-svg")
            root = ElementTree.parse(saved.value.path()).getroot()
            words = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
            assert {entity.text for entity in document.entities if len(entity.text) < 20} <= words

    def test_library_is_loaded_when_needed(self, browser, url):
        with open_page(browser, url) as page:
            enter_text(page, TEXT)
            assert not any("cytoscape" in request.url for request in page.requests)
            show_graph(page)
            assert any("cytoscape" in request.url for request in page.requests)

    def test_library_that_cannot_be_loaded(self, browser, url):
        with open_page(browser, url, expected=("ERR_FAILED",)) as page:
            page.route("**/cose-base.js", lambda route: route.abort())
            enter_text(page, TEXT)
            page.click("#tab-graph")
            page.locator("#graph-note", has_text="cannot be drawn").wait_for()
            page.click("#tab-triples")
            assert page.locator("#view-triples tbody tr").count() > 0
