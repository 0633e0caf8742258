import base64
import hashlib
import json
import re

import pytest
from tests.drawing.markup import assert_no_network, read_markup
from tests.evaluation.report.example import example

from cascade_srn.errors import DataError
from cascade_srn.evaluation.analysis import analyse
from cascade_srn.evaluation.from_text import Segmentation
from cascade_srn.evaluation.report import REPORT_NAME, render_report, write_report
from cascade_srn.evaluation.report.figures import format_percent
from cascade_srn.evaluation.report.filters import FilterKeys
from cascade_srn.schema import Schema
from cascade_srn.types import Document, Sentence, Span, Triple


@pytest.fixture(scope="module")
def html(report_file):
    return report_file.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(html):
    return read_markup(html)


def section(page, name):
    return next(one for one in page.all("section") if one.attributes["id"] == name)


def rows(table):
    return [[cell.text.strip() for cell in row.children if not isinstance(cell, str)] for row in table.all("tr")]


def test_a_report_that_cannot_be_written_leaves_the_old_one(tmp_path, analysis):
    (tmp_path / REPORT_NAME).write_text("old", encoding="utf-8")
    with pytest.raises(UnicodeEncodeError):
        write_report(analysis, tmp_path, title="half a \ud800 pair")
    assert (tmp_path / REPORT_NAME).read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == [REPORT_NAME]


def test_the_report_from_json_is_the_same(html):
    assert render_report(example()) == html
    assert render_report(json.loads(json.dumps(example().to_dict()))) == html


def test_another_version_of_the_analysis_is_refused(analysis, tmp_path):
    with pytest.raises(DataError, match="99.*1"):
        write_report(analysis | {"format_version": 99}, tmp_path)
    with pytest.raises(DataError, match="None"):
        write_report(["no analysis"], tmp_path)
    assert not list(tmp_path.iterdir())


def test_no_network_and_only_its_own_script(html, page):
    assert_no_network(html)
    (script,) = page.all("script")
    digest = base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html
    assert not re.search(r"\son\w+=", html)


def test_headlines_have_the_names_of_their_protocols(page, analysis):
    cards = section(page, "scores").all("div", "card")
    names = [
        "ner, micro, end to end",
        "re_boundaries, directed, micro, end to end",
        "re_strict, directed, micro, end to end",
    ]
    for card, task, name in zip(cards, ("ner", "re_boundaries", "re_strict"), names, strict=True):
        scores = analysis["scores"][task]
        assert card.all("span", "protocol")[0].text == name
        for average in ("micro", "macro"):
            for figure in ("precision", "recall", "f1"):
                assert format_percent(scores[average][figure]) in card.text
        assert f"{scores['micro']['n_correct']} correct, {scores['micro']['n_predicted']} predicted" in card.text


def test_the_header_has_model_and_data(page):
    text = page.all("header")[0].text
    assert "a model & more" in text
    assert "47 documents, 54 sentences, 743 words, 128 entities, 71 relations" in text
    assert "directed: " in text
    assert "(partner-of)" in text


def expected_row(name, counts):
    figures = [format_percent(counts[figure]) for figure in ("f1", "precision", "recall")]
    return [name, *figures, *(str(counts[f"n_{key}"]) for key in ("gold", "predicted", "correct"))]


def test_tables_of_labels_and_triples(page, analysis):
    tables = section(page, "labels").all("table")
    for table, task in zip(tables, ("ner", "re_boundaries", "re_strict"), strict=False):
        expected = [expected_row(label, counts) for label, counts in analysis["scores"][task]["per_label"].items()]
        assert rows(table)[1:] == expected
    groups = analysis["in_triples"]
    assert rows(tables[3])[1:] == [
        expected_row("in a relation", groups["in_triple"]),
        expected_row("in no relation", groups["out_of_triple"]),
    ]


def test_kinds_of_errors_with_their_definitions(page, analysis):
    tables = [t for t in section(page, "errors").all("table") if "errors" in t.classes]
    for table, key in zip(tables, ("relation_errors", "entity_errors"), strict=True):
        found = rows(table)[1:]
        for row, kind in zip(found, analysis[key]["kinds"], strict=True):
            assert kind["name"] in row[0]
            assert kind["description"] in row[0]
            assert row[1:] == [str(kind["n"]), format_percent(kind["share"])]


def test_false_positives(page, analysis):
    (table,) = section(page, "scores").all("table")
    shares = analysis["false_positives"]
    assert len(shares) == 3
    for row, counts in zip(rows(table)[1:], shares.values(), strict=True):
        assert row[1:] == [str(counts["n_sentences"]), str(counts["n_predicted"]), format_percent(counts["share"])]


def test_figures_from_text_say_so(analysis):
    gold = [Document.from_words([["a", "b"]])]
    found = analyse(gold, gold, schema=Schema(("A",)), segmentation=Segmentation(7, 9, (3, 6), (4, 4), (2, 2), (0, 0)))
    page = read_markup(render_report(found))
    assert page.all("span", "condition")[0].text == "from text"
    assert all(one.text.endswith("from text") for one in section(page, "scores").all("span", "protocol"))
    table = section(page, "scores").all("table")[-1]
    assert "9 sentences from the text, 7 in gold" in table.text
    assert rows(table)[1:] == [
        ["sentence breaks", "6", "3", "50.0"],
        ["entity boundaries", "4", "4", "100.0"],
        ["entities", "2", "2", "100.0"],
        ["relations", "0", "0", "–"],
    ]


def test_breakdowns(page, analysis):
    tables = iter(section(page, "where").all("table"))
    for breakdown in analysis["breakdowns"]:
        for groups in breakdown["tasks"].values():
            used = [group for group in groups if group["n_gold"] or group["n_predicted"]]
            assert rows(next(tables))[1:] == [expected_row(group["group"], group) for group in used]
    assert next(tables, None) is None


def test_reliability_plots_and_tables(page, analysis):
    plots = section(page, "calibration").all("figure", "plot")
    for plot, key in zip(plots, ("entities", "relations"), strict=True):
        used = [one for one in analysis["calibration"][key]["bins"] if one["n"]]
        circles = plot.all("circle")
        assert len(circles) == len(used)
        # The picture's square is 220 wide from 38 on, and 220 high from 10 on.
        assert [round((float(c.attributes["cx"]) - 38) / 220, 2) for c in circles] == pytest.approx(
            [one["mean_score"] for one in used], abs=0.006
        )
        assert [1 - (float(c.attributes["cy"]) - 10) / 220 for c in circles] == pytest.approx(
            [one["precision"] for one in used], abs=0.001
        )
        assert [row[1] for row in rows(plot.all("table")[0])[1:]] == [str(one["n"]) for one in used]


def test_confusions(page, analysis):
    tables = section(page, "confusion").all("table")
    for table, key in zip(tables, ("entities", "relations"), strict=True):
        confusion = analysis["confusion"][key]
        assert rows(table)[0][1:] == confusion["predicted"]
        expected = [[name, *map(str, row)] for name, row in zip(confusion["gold"], confusion["rows"], strict=True)]
        assert rows(table)[1:] == expected


def test_every_sentence_has_its_keys_and_drawings(page, analysis):
    articles = section(page, "sentences").all("article")
    filter_keys = FilterKeys.from_analysis(analysis)
    for article, record in zip(articles, analysis["sentences"], strict=True):
        assert article.attributes["data-keys"].split() == filter_keys.find(record)
        assert article.attributes["data-text"] == " ".join(record["words"])
        for figure, side in zip(article.all("figure", "sentence"), ("gold", "predicted"), strict=True):
            assert [word.text for word in figure.all("span", "word")] == record["words"]
            drawn = [bar for bar in figure.all("b", "bar") if "opens" in bar.classes]
            assert len(drawn) == len(record[side]["entities"])
            wrong = [bar for bar in drawn if "correct" not in bar.classes]
            assert len(wrong) == sum(not entity["correct"] for entity in record[side]["entities"])
        assert len(article.all("details")) == bool(record["n_errors"])
        assert sum(len(d.all("li")) for d in article.all("details")) == record["n_errors"]


def test_every_linked_number_has_sentences(page, analysis):
    keys = [article.attributes["data-keys"].split() for article in page.all("article")]
    links = [a for a in page.all("a") if a.attributes["href"].startswith("#show=")]
    assert len(links) > 200
    for link in links:
        key = link.attributes["href"].removeprefix("#show=")
        assert 1 <= sum(key in found for found in keys) <= int(link.text)
        assert link.attributes["title"].startswith("Show sentences: ")


def test_every_link_within_the_page_leads_somewhere(page):
    ids = {element.attributes.get("id") for element in page.all()}
    for link in page.all("a"):
        target = link.attributes["href"]
        assert target.startswith("#show=") or target[1:] in ids


def test_with_gold_entities_there_are_no_figures_about_entities_alone():
    html = render_report(example(entities="gold", n_documents=12))
    assert_no_network(html)
    page = read_markup(html)
    assert "with gold entities" in page.all("h1")[0].text
    assert len(section(page, "scores").all("div", "card")) == 2
    assert "Entities in and out" not in html
    assert "Entity errors" not in html
    assert len(section(page, "confusion").all("table")) == 1
    assert "end to end" not in page.text.replace(page.all("script")[0].text, "")


def test_data_is_escaped():
    evil = "<script>alert(1)</script>"
    schema = Schema((evil, "\"'>T"), (f"{evil}r", "</noscript>"), frozenset({"</noscript>"}))
    one, other = Span(0, 1, evil), Span(1, 2, "\"'>T")
    words = [evil, "</noscript></article>", "&amp;"]
    gold = Sentence.from_words(words, [one, other], [Triple(one, f"{evil}r", other)])
    predicted = gold.annotated([one, Span(1, 2, evil, 0.5)], [Triple(one, "</noscript>", Span(1, 2, evil), 0.5)])
    html = render_report(
        analyse(
            [Document.from_sentences([gold], id=evil)],
            [Document.from_sentences([predicted], id=evil)],
            schema=schema,
            about={evil: evil},
        ),
        title=evil,
    )
    assert_no_network(html)
    page = read_markup(html)
    assert len(page.all("script")) == 1
    assert len(page.all("article")) == 1
    assert html.count("</noscript>") == len(page.all("noscript"))
    assert page.all("article")[0].attributes["data-text"] == " ".join(words)
    assert [word.text for word in page.all("figure", "sentence")[0].all("span", "word")] == words
    assert page.all("title")[0].text == evil


def test_nothing_predicted_and_nothing_annotated():
    schema = Schema(("T",), ("r",))
    empty = Document.from_words([["a", "b"]])
    page = read_markup(render_report(analyse([empty], [empty], schema=schema)))
    assert len(page.all("article")) == 1
    assert not [one for one in page.all("section") if one.attributes["id"] == "calibration"]
    assert not [a for a in page.all("a") if a.attributes["href"].startswith("#show=e")]


def test_measured_and_promised_precision_are_drawn(analysis):
    curve = {"task": "re_strict", "notion": "strict", "measured": [[0.9, 1.0, 0.0], [0.5, 0.5, 1.0]]}
    promise = {"name": "relations", "level": 0.6, "notion": "strict", "min_score": 0.0, "false_positives": None}
    more = {
        "precision_curves": [curve | {"promised": [[0.75, 0.8, 0.25]]}, curve | {"task": "ner", "promised": []}],
        "promised_precision": [promise | {"precision": 0.7, "recall": 0.4}],
    }
    found = section(read_markup(render_report(analysis | more)), "precision")
    assert [one.text for one in found.all("span", "protocol")] == [
        "re_strict, directed, precision by recall, end to end",
        "ner, precision by recall, end to end",
    ]
    assert "at most 75.0 % can be promised" in found.text
    assert "no precision can be promised" in found.text
    assert [one.attributes["points"] for one in found.all("polyline")][:2] == ["38.0,10.0 258.0,120.0", "93.0,65.0"]
    (point,) = found.all("circle")
    assert (point.attributes["cx"], point.attributes["cy"]) == ("93.0", "65.0")
    assert rows(found.all("table")[-1])[1] == ["relations", "60.0", "all", "70.0", "40.0", "–"]
    assert 'id="precision"' not in render_report(analysis)
