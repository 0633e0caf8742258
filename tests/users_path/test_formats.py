"""The same path after ``cascade-srn convert`` to each format and back: the same sentences, weights and scores."""

import pytest
from tests.users_path.commands import MOMENT, NEWS, SPLITS, evaluated, read_json, run, succeed

from cascade_srn import read_documents, write_documents
from cascade_srn.data.formats import FORMATS
from cascade_srn.text.segment import segment

pytestmark = pytest.mark.slow

# How corpora of each format are usually named; for brat it is a folder.
ENDINGS = {"dygie": ".json", "spert": ".json", "brat": "", "jsonl": ".jsonl"}
# A format's own files, and what `convert` makes of them.
WAYS = ("as it is", "converted to jsonl")


@pytest.fixture(scope="session")
def kept(workplace):
    """The documents of each split that all formats keep as they are; those are in kept/SPLIT.jsonl."""
    documents = {}
    (workplace / "kept").mkdir()
    for split in SPLITS:
        everything = list(read_documents(workplace / NEWS / f"{split}.jsonl"))
        documents[split] = [document for document in everything if _kept_by_all(document)]
        assert len(documents[split]) > 0.9 * len(everything)
        write_documents(documents[split], workplace / "kept" / f"{split}.jsonl")
    return documents


@pytest.fixture(scope="session")
def corpora(workplace, kept):
    """By format and way, what each split is called."""
    named = {}
    for format, ending in ENDINGS.items():
        (workplace / format).mkdir()
        for split in SPLITS:
            there, back = f"{format}/{split}{ending}", f"{format}/{split}-back.jsonl"
            told = succeed("convert", f"kept/{split}.jsonl", there, "--to", format, folder=workplace).err
            assert told.endswith("skipped 0, noted 0\n")
            told = succeed("convert", there, back, "--from", format, folder=workplace).err
            assert told.endswith("skipped 0, noted 0\n")
            for way, name in zip(WAYS, (there, back), strict=True):
                named.setdefault((format, way), {})[split] = name
    return named


@pytest.fixture(scope="session")
def reference(workplace, kept):
    """A moment of training on the documents before they were converted."""
    return _train(workplace, {split: f"kept/{split}.jsonl" for split in SPLITS}, "runs/kept")


@pytest.fixture(scope="session")
def scores(workplace, trained, kept):
    """The scores of the trained model on those of the test documents."""
    return evaluated("runs/news/best", "kept/test.jsonl", folder=workplace)


def test_every_format_is_tried():
    assert set(ENDINGS) == set(FORMATS)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("format", FORMATS)
class TestEachFormat:
    def test_the_same_sentences(self, workplace, kept, corpora, format, way):
        for split, name in corpora[format, way].items():
            assert _sentences(read_documents(workplace / name)) == _sentences(kept[split])

    def test_training_leads_to_the_same_model(self, workplace, reference, corpora, format, way):
        output = f"runs/{format}-{WAYS.index(way)}"
        found = _train(workplace, corpora[format, way], output)
        for split in ("dev", "test"):
            assert reference[split]["ner"]["micro"]["n_correct"] > 0
            assert found[split] == reference[split]
        for name in ("model.safetensors", "config.json"):
            one, other = (workplace / run / "best" / name for run in (output, "runs/kept"))
            assert one.read_bytes() == other.read_bytes()

    def test_a_model_has_the_same_scores(self, workplace, scores, corpora, format, way):
        assert scores["re_strict"]["micro"]["n_correct"] > 0
        assert evaluated("runs/news/best", corpora[format, way]["test"], folder=workplace) == scores


class TestTheWholeCorpus:
    """With what some formats do not keep: entities that share their words, and words cut in ways of one's own."""

    def test_jsonl_keeps_every_byte(self, workplace):
        for split in SPLITS:
            succeed("convert", f"{NEWS}/{split}.jsonl", "copy.jsonl", folder=workplace)
            assert (workplace / "copy.jsonl").read_bytes() == (workplace / NEWS / f"{split}.jsonl").read_bytes()

    def test_spert_keeps_every_sentence(self, workplace, summary):
        succeed("convert", f"{NEWS}/test.jsonl", "whole.json", "--to", "spert", folder=workplace)
        assert evaluated("runs/news/best", "whole.json", folder=workplace) == summary["test"]

    def test_brat_keeps_every_annotation(self, workplace, gold, extractor, summary):
        succeed("convert", f"{NEWS}/test.jsonl", "whole", "--to", "brat", folder=workplace)
        scores = evaluated("runs/news/best", "whole", folder=workplace)
        for task in ("ner", "re_boundaries", "re_strict"):
            assert scores[task]["micro"]["n_gold"] == summary["test"][task]["micro"]["n_gold"]
        # What is predicted differs in nothing but documents whose words are cut otherwise.
        read = list(read_documents(workplace / "whole"))
        assert [(d.id, d.text, d.entities) for d in read] == [(d.id, d.text, d.entities) for d in gold]
        pairs = list(zip(extractor.predict(gold), extractor.predict(read), strict=True))
        alike = [(a, b) for a, b in pairs if _sentences([a]) == _sentences([b])]
        assert len(pairs) - len(alike) <= sum(not _same_words(document) for document in gold)

    def test_dygie_refuses_what_it_cannot_hold(self, workplace):
        for split in SPLITS:
            refused = run("convert", f"{NEWS}/{split}.jsonl", "refused.json", "--to", "dygie", folder=workplace)
            assert refused.code == 2
            assert "DyGIE relations name spans without types; list it first, or write jsonl or spert" in refused.err
            assert not (workplace / "refused.json").exists()


def _kept_by_all(document):
    """Whether no entities share their words, which dygie's relations cannot tell apart, and words are those that the
    segmenter makes anew for brat."""
    spans = [(e.start, e.end) for e in document.entities]
    return len(set(spans)) == len(spans) and _same_words(document)


def _same_words(document):
    return [sentence.offsets for sentence in document.sentences] == [tuple(words) for words in segment(document.text)]


def _sentences(documents):
    """What all formats keep of a sentence: its words and annotations, but not where in the text they stood."""
    return [(s.words, s.entities, s.triples) for document in documents for s in document.sentences]


def _train(workplace, data, output):
    """How a moment of training ended; with the labels that are found in the data, as for a corpus of one's own."""
    splits = [f"data.{split}={name}" for split, name in data.items()]
    labels = ["data.schema=null", "data.symmetric=partner-of"]
    arguments = [*splits, *labels, *MOMENT, f"output={output}", "--device", "cpu"]
    succeed("train", "recipes/news.yaml", *arguments, folder=workplace)
    return read_json(workplace / output / "summary.json")
