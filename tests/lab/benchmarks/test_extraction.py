import pytest
from tests.small_models import SENTENCES, examples, small_model, spread_probabilities

from cascade_srn.config import PRESETS, Thresholds
from cascade_srn.lab.benchmarks.extract import Extraction, accepting_thresholds, group_examples, with_bilstm
from cascade_srn.lab.benchmarks.options import ExtractOptions as Options
from cascade_srn.lab.benchmarks.workload import count
from cascade_srn.network.batch import candidate_subjects
from cascade_srn.network.sequence import BiLSTM

EXAMPLES = [example for example in examples() if len(example.sentence)]


def test_batches_of_a_fixed_number_of_sentences():
    groups = group_examples(Options(batch_sentences=2), EXAMPLES, small_model("swift").predictor())
    assert [len(group) for group in groups] == [2, 2, 2]
    lengths = [len(example.sentence) for group in groups for example in group]
    assert lengths == sorted(lengths, reverse=True)
    # The predictor can hold a batch.
    for words, budget in ((1, 2 * lengths[0]), (500, 500)):
        options = Options(batch_words=words, batch_sentences=2)
        made = Extraction(small_model("swift"), EXAMPLES, options, thresholds=Thresholds(), given_entities=False)
        assert made.predictor.batch_words == budget


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("options", [Options(), Options(batch_words=10), Options(batch_sentences=2)])
def test_given_entities_are_all_subjects(preset, options):
    model = small_model(preset)
    thresholds = Thresholds(subject=0.0)
    extraction = Extraction(model, EXAMPLES, options, thresholds=thresholds, given_entities=True)
    found = extraction()
    assert count(found).entities == count(SENTENCES).entities
    assert extraction.n_subjects() == sum(len(candidate_subjects(s, s.entities, "entities")) for s in SENTENCES)
    assert extraction.n_words == sum(len(s) for s in SENTENCES)
    assert extraction.precision == "float32"


@pytest.mark.parametrize("options", [Options(), Options(batch_sentences=2)])
def test_without_given_entities_it_is_what_the_predictor_finds(options):
    model = spread_probabilities(small_model("swift"))
    extraction = Extraction(model, EXAMPLES, options, thresholds=Thresholds(), given_entities=False)
    by_words = {sentence.words: sentence for sentence in extraction()}
    expected = model.predictor(thresholds=Thresholds()).predict(EXAMPLES)
    assert [by_words[sentence.words] for sentence in expected] == expected
    assert extraction.n_subjects() >= count(expected).subjects > 0


def test_turn_1_is_computed_although_entities_are_given():
    model = small_model("swift")
    extraction = Extraction(model, EXAMPLES, Options(), thresholds=Thresholds(), given_entities=True)
    seen = []
    model.cascade.entity_head.start.register_forward_hook(lambda *_: seen.append("start"))
    model.cascade.entity_head.matcher.register_forward_hook(lambda *_: seen.append("match"))
    extraction()
    assert seen == ["start", "match"]


def test_the_encoder_alone_reads_the_same_batches_once():
    model = small_model("early")
    extraction = Extraction(model, EXAMPLES, Options(batch_sentences=4), thresholds=Thresholds(), given_entities=True)
    rows = []
    hook = {"with_kwargs": True}
    model.cascade.encoder.model.register_forward_pre_hook(lambda _, __, kw: rows.append(len(kw["input_ids"])), **hook)
    extraction.encoder_alone()()
    assert rows == [4, 2]


def test_the_bilstm_shares_the_encoder():
    model = small_model("hybrid")
    twin = with_bilstm(model)
    assert isinstance(twin.cascade.sequence, BiLSTM)
    assert twin.cascade.encoder is model.cascade.encoder
    assert twin.settings.sequence_encoder == "bilstm"
    assert model.settings.sequence_encoder == "srn"
    assert not twin.cascade.training


def test_thresholds_that_accept_every_subject():
    model = small_model("swift", thresholds=Thresholds(object=0.3))
    assert accepting_thresholds(model, EXAMPLES) == Thresholds(subject=0.0, object=0.3)
    chosen = accepting_thresholds(model, EXAMPLES, n_triples=20)
    found = Extraction(model, EXAMPLES, Options(), thresholds=chosen, given_entities=True)()
    assert 10 <= count(found).triples <= 20
