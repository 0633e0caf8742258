import json
import shutil
from dataclasses import replace

import pytest
from tests.evaluation.saved_models import DOCUMENTS, corpus, saved_model
from tests.small_models import SCHEMA

from cascade_srn import Document, Extractor, Schema, Sentence, Span, Triple, write_documents
from cascade_srn.errors import ConfigError, DataError, ModelError, SchemaError
from cascade_srn.evaluation import SYMMETRIC_POLICIES, analyse, score_documents
from cascade_srn.evaluation.comparison import Bootstrap, compare
from cascade_srn.evaluation.evaluate import check_labels, check_same_labels, evaluate, require_writable, write_reports
from cascade_srn.evaluation.options import EvaluateOptions
from cascade_srn.evaluation.result import EvaluatedModel, display_name, display_names
from cascade_srn.evaluation.text import format_evaluation


def evaluated(*models, data=None, environment=None, **options):
    settings = EvaluateOptions(models=models, data=data or corpus(), **{"n_resamples": 100, **options})
    return evaluate(settings, environment=environment)


@pytest.fixture(scope="module")
def predicted():
    return Extractor.from_pretrained(saved_model()).predict(DOCUMENTS)


class TestOneModel:
    def test_scores_are_those_of_its_predictions(self, predicted):
        found = evaluated(saved_model(), symmetric="all")
        (scores,) = found.scores.values()
        assert scores == [
            score_documents(DOCUMENTS, predicted, schema=SCHEMA, symmetric=policy) for policy in SYMMETRIC_POLICIES
        ]
        assert scores[0].ner.counts.n_predicted  # there is something to see
        assert scores[0].re_strict.counts.n_predicted

    def test_to_dict(self):
        record = evaluated(saved_model(), environment={"cpu": "a processor"}).to_dict()
        assert json.loads(json.dumps(record)) == record
        assert (record["condition"], record["entities"]) == ("end to end", "predicted")
        assert record["data"] == {"name": display_name(corpus()), "n_documents": 5, "n_sentences": 6, "n_words": 32}
        (model,) = record["models"]
        assert model["name"] == "…/seed-0-0/best"
        assert model["speed"]["n_runs"] == 1
        assert model["speed"]["words_per_second"] == pytest.approx(32 / model["speed"]["seconds"])
        assert set(model["scores"]) == {"directed"}
        assert record["differences"] == []
        assert record["environment"] == {"cpu": "a processor"}
        assert "ner, label Thing" in [figure["protocol"] for figure in record["figures_of_models"]]

    def test_the_analysis_is_that_of_its_predictions(self, predicted):
        found = evaluated(saved_model(), symmetric="canonical", train=corpus(), environment={"cpu": "a processor"})
        ((name, analysis),) = found.analyse_models()
        assert name == "1-seed-0-0-best"
        expected = analyse(DOCUMENTS, predicted, schema=SCHEMA, symmetric="canonical", training_documents=DOCUMENTS)
        assert replace(analysis, about={}) == expected
        assert analysis.about == {
            "model": "…/seed-0-0/best",
            "data": display_name(corpus()),
            "overlapping entities": "all: all entities that pass the thresholds",
            "training data": display_name(corpus()),
            "cpu": "a processor",
        }

    def test_overlaps(self):
        given = evaluated(saved_model(), overlaps="flat")
        (model,) = given.models
        expected = Extractor.from_pretrained(saved_model(), overlaps="flat").predict(DOCUMENTS)
        assert (model.overlaps, model.predicted) == ("flat", expected)
        assert given.to_dict()["models"][0]["overlaps"] == "flat"
        ((_, analysis),) = given.analyse_models()
        assert analysis.about["overlapping entities"].startswith("flat: ")
        assert format_evaluation(given).splitlines()[0].endswith("end to end, overlaps flat")
        stored = evaluated(saved_model(), saved_model(1, overlaps="nested"))
        assert [model.overlaps for model in stored.models] == ["all", "nested"]
        first, second = (model.name for model in stored.models)
        heading = format_evaluation(stored).splitlines()[0]
        assert heading.endswith(f"overlaps all ({first}); nested ({second})")

    def test_the_training_data_can_be_in_another_format(self, tmp_path):
        write_documents(DOCUMENTS, tmp_path / "gold.json", "spert")
        found = evaluated(saved_model(), data=str(tmp_path / "gold.json"), format="spert", train=corpus())
        assert found.training == DOCUMENTS


class TestGoldEntities:
    def test_relations_are_those_between_the_given_entities(self):
        found = evaluated(saved_model(), gold_entities=True)
        (model,) = found.models
        assert [d.entities for d in model.predicted] == [d.entities for d in DOCUMENTS]
        assert any(d.relations for d in model.predicted)
        expected = Extractor.from_pretrained(saved_model()).predict(DOCUMENTS, given_entities=True)
        assert [d.relations for d in model.predicted] == [d.relations for d in expected]

    def test_every_figure_says_so_and_none_is_of_entities(self):
        found = evaluated(saved_model(), saved_model(1), gold_entities=True)
        record = found.to_dict()
        assert (record["condition"], record["entities"]) == ("with gold entities", "gold")
        assert [model["overlaps"] for model in record["models"]] == [None, None]
        assert "overlaps" not in format_evaluation(found)
        assert all(figure["protocol"].endswith("with gold entities") for figure in record["figures_of_models"])
        assert all(set(scores) == {"symmetric", "re_boundaries", "re_strict"}
                   for model in record["models"] for scores in model["scores"].values())  # fmt: skip
        assert [d["protocol"] for d in record["differences"]] == [
            "re_boundaries, directed, micro F1, with gold entities",
            "re_strict, directed, micro F1, with gold entities",
        ]
        figures = [line for line in format_evaluation(found).splitlines() if line.lstrip().startswith(("ner", "re_"))]
        assert figures
        assert all("with gold entities" in line for line in figures)

    def test_a_model_without_relations(self):
        with pytest.raises(ModelError, match="'…/seed-0-1/best'"):
            evaluated(saved_model(joint=False), gold_entities=True)


class TestSeveralModels:
    def test_two_models_are_compared(self, predicted):
        found = evaluated(saved_model(), saved_model(1), symmetric="all", seed=4)
        other = Extractor.from_pretrained(saved_model(1)).predict(DOCUMENTS)
        names = [difference.protocol for difference in found.differences]
        assert names == [
            "ner, micro F1",
            *(f"re_boundaries, {policy}, micro F1" for policy in SYMMETRIC_POLICIES),
            *(f"re_strict, {policy}, micro F1" for policy in SYMMETRIC_POLICIES),
        ]
        expected = compare(
            DOCUMENTS, [predicted], [other], schema=SCHEMA, symmetric="doubled", bootstrap=Bootstrap(100, seed=4)
        )
        assert found.differences[-1] == expected["re_strict"]

    def test_one_side_against_another(self):
        found = evaluated(saved_model(), saved_model(1), against=(saved_model(2),), resample="sentences")
        first, second = found.sides
        assert [model.name for model in first] == ["…/seed-0-0/best", "…/seed-1-0/best"]
        assert [model.name for model in second] == ["…/seed-2-0/best"]
        difference = found.differences[0].to_dict()
        assert (difference["first"]["n"], difference["second"]["n"]) == (2, 1)
        assert (difference["unit"], difference["n_units"], difference["drawn_models"]) == ("sentence", 6, True)
        record = found.to_dict()
        assert [model["name"] for model in record["against"]] == ["…/seed-2-0/best"]
        assert record["figures_of_against"][0]["f1"]["n"] == 1


KNOWN = {"cpu": "a processor", "gpu": None, "threads": 1, "precision": "float32"}


class TestText:
    def test_one_model(self):
        lines = format_evaluation(evaluated(saved_model(), environment=KNOWN)).splitlines()
        assert lines[0] == f"…/seed-0-0/best on {display_name(corpus())}, end to end, overlaps all"
        assert lines[1].startswith("5 documents, 6 sentences, 32 words, 13 entities, 7 relations")
        protocols = [line.split("  ")[0] for line in lines[4:10]]
        assert protocols == [
            "ner, micro", "ner, macro", "re_boundaries, directed, micro", "re_boundaries, directed, macro",
            "re_strict, directed, micro", "re_strict, directed, macro",
        ]  # fmt: skip
        (hardware,) = [line for line in lines if "a processor" in line]
        assert all(part in hardware for part in ("1 thread", "float32", "4,096 words"))

    def test_labels_on_demand(self):
        found = evaluated(saved_model())
        assert "label" not in format_evaluation(found)
        assert "re_strict, directed, label compare" in format_evaluation(found, per_label=True)

    def test_several_models(self):
        text = format_evaluation(evaluated(*(saved_model(seed) for seed in range(3))))
        assert text.startswith("3 models (mean ± standard deviation) on")
        assert " ± " in text.splitlines()[4]
        assert "F1 by model" in text
        assert "bootstrap" not in text

    def test_a_comparison(self):
        text = format_evaluation(evaluated(saved_model(), saved_model(1), against=(saved_model(2), saved_model(3))))
        assert "against 2 models (mean ± standard deviation)" in text
        assert "paired bootstrap, 100 resamples of 5 documents and of the models of each side, seed 0" in text
        assert "unreliable" in text
        two = format_evaluation(evaluated(saved_model(), saved_model(1)))
        assert "…/seed-0-0/best minus …/seed-1-0/best: paired bootstrap, 100 resamples of 5 documents, seed 0" in two

    def test_a_model_without_relations_is_named(self):
        text = format_evaluation(evaluated(saved_model(joint=False)))
        assert "…/seed-0-1/best predicts entities only" in text


class TestLabels:
    def data(self, entity, relation="used-for"):
        spans = [Span(0, 1, entity), Span(1, 2, "Thing")]
        return [
            Document.from_sentences([Sentence.from_words(list("ab"), spans, [Triple(spans[0], relation, spans[1])])])
        ]

    def test_unknown_labels_are_all_named(self):
        with pytest.raises(SchemaError) as error:
            check_labels(SCHEMA, self.data("task", "for"), model="m", data="d.json")
        for part in ("d.json", "'m'", "['task']", "Metric, Task, Thing", "['for']", "compare, part-of, used-for"):
            assert part in error.value.problem
        assert "'Task'" in error.value.hint

    def test_a_model_that_knows_no_relation(self):
        with pytest.raises(SchemaError, match=r"relation types \['used-for'\].*none"):
            check_labels(Schema(("Task", "Thing")), self.data("Task"), model="m", data="d")

    def test_no_sentence(self):
        with pytest.raises(DataError, match="d "):
            check_labels(SCHEMA, [Document("")], model="m", data="d")

    def test_evaluate_checks_the_labels(self, tmp_path):
        write_documents(self.data("Tsk"), tmp_path / "odd.jsonl")
        with pytest.raises(SchemaError, match=r"odd.jsonl.*\['Tsk'\].*'Task'"):
            evaluated(saved_model(), data=str(tmp_path / "odd.jsonl"))

    def test_models_of_different_labels(self):
        one, other = (
            EvaluatedModel("one", SCHEMA, [], 1.0),
            EvaluatedModel("other", Schema(("Metric",), ("compare",)), [], 1.0),
        )
        with pytest.raises(SchemaError, match=r"'one' and 'other'.*\['Task', 'Thing'\]"):
            check_same_labels([one, one, other])

    def test_models_of_different_symmetric_relations(self):
        other = EvaluatedModel("other", Schema(SCHEMA.entity_types, SCHEMA.relation_types), [], 1.0)
        with pytest.raises(SchemaError, match=r"\[\].*\['compare'\]"):
            check_same_labels([EvaluatedModel("one", SCHEMA, [], 1.0), other])

    def test_the_order_of_labels_does_not_matter(self):
        turned = Schema(SCHEMA.entity_types[::-1], SCHEMA.relation_types[::-1], SCHEMA.symmetric)
        check_same_labels([EvaluatedModel("one", SCHEMA, [], 1.0), EvaluatedModel("other", turned, [], 1.0)])


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"models": ()}, "'d'"),
            ({"symmetric": "both"}, "symmetric.*'both'.*directed, canonical, doubled, all"),
            ({"precision": "half"}, "precision.*'half'.*auto, float32, bf16"),
            ({"resample": "words"}, "resample.*'words'.*documents, sentences"),
            ({"batch_words": 0}, "batch_words.* 0"),
            ({"n_resamples": 9}, "n_resamples.* 9"),
            ({"seed": -1}, "seed.* -1"),
            ({"by": ("brackets", "bracket")}, "by.*'bracket'.*'brackets'"),
            ({"by": ("entity_text",)}, "entity_text"),
            ({"models": ("m", "m")}, "'m'"),
            ({"against": ("m",)}, "'m'"),
            ({"models": ("m", "./n/../m/")}, "'./n/../m/'"),
        ],
    )
    def test_errors(self, options, message):
        with pytest.raises(ConfigError, match=message):
            EvaluateOptions(**{"models": ("m",), "data": "d", **options})


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("runs/demo", "runs/demo"),
        ("/a/b/seed-0/best", "…/seed-0/best"),
        ("/a", "/a"),
        ("owner/name", "owner/name"),
        ("~nosuchuser/a", "~nosuchuser/a"),
    ],
)
def test_names_have_no_folders_of_this_machine(path, shown):
    assert display_name(path) == shown


@pytest.mark.parametrize(
    ("paths", "shown"),
    [
        (["/a/x/best", "/a/y/best"], ["…/x/best", "…/y/best"]),
        (["/a/x/s/best", "/a/y/s/best"], ["…/x/s/best", "…/y/s/best"]),
        (["/x/s/best", "/y/s/best"], ["…/x/s/best", "…/y/s/best"]),
        (["~nosuchuser/x", "y"], ["~nosuchuser/x", "y"]),
        (["x/s/best", "/y/x/s/best"], ["x/s/best", "…/s/best"]),
        ([], []),
    ],
)
def test_names_of_models_are_distinct(paths, shown):
    assert display_names(paths) == shown


def test_models_whose_last_folders_are_alike(tmp_path):
    for folder, seed in (("one", 0), ("other", 1)):
        shutil.copytree(saved_model(seed), tmp_path / folder / "run" / "best")
    found = evaluated(str(tmp_path / "one" / "run" / "best"), str(tmp_path / "other" / "run" / "best"))
    assert list(found.scores) == ["…/one/run/best", "…/other/run/best"]
    alone = [evaluated(saved_model(seed)).scores[f"…/seed-{seed}-0/best"] for seed in (0, 1)]
    assert list(found.scores.values()) == alone
    assert alone[0] != alone[1]


class TestWriting:
    @pytest.fixture(autouse=True)
    def _needs_the_extra(self):
        pytest.importorskip("matplotlib")
        pytest.importorskip("jinja2")

    def test_one_model(self, tmp_path):
        found = evaluated(saved_model())
        assert write_reports(found, tmp_path / "r") == [tmp_path / "r"]
        assert json.loads((tmp_path / "r" / "scores.json").read_text(encoding="utf-8")) == found.to_dict()
        ((_, analysis),) = found.analyse_models()
        assert json.loads((tmp_path / "r" / "analysis.json").read_text(encoding="utf-8")) == analysis.to_dict()
        assert list((tmp_path / "r").glob("*.html"))

    def test_several_models_have_a_folder_each(self, tmp_path):
        found = evaluated(saved_model(), against=(saved_model(1),), gold_entities=True)
        folders = [tmp_path / "1-seed-0-0-best", tmp_path / "2-seed-1-0-best"]
        assert write_reports(found, tmp_path) == folders
        assert (tmp_path / "scores.json").is_file()
        for folder, (_, analysis) in zip(folders, found.analyse_models(), strict=True):
            assert json.loads((folder / "analysis.json").read_text(encoding="utf-8")) == analysis.to_dict()
            assert list(folder.glob("*.html"))

    def test_unwritable_paths_are_found_before_the_work(self, tmp_path):
        (tmp_path / "file").write_text("", encoding="utf-8")
        with pytest.raises(OSError, match="file"):
            require_writable(None, tmp_path / "file" / "scores.json")
        with pytest.raises(ConfigError, match="is a folder"):
            require_writable(None, tmp_path)
