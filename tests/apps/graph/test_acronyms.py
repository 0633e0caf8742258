import pytest
from hypothesis import given
from hypothesis import strategies as st

from cascade_srn.apps.graph.acronyms import Definitions, collect_expansions, define_acronyms, find_definitions
from cascade_srn.apps.graph.forest import Forest


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We do named entity recognition (NER).", [("NER", "named entity recognition")]),
        ("NER (named entity recognition) is hard.", [("NER", "named entity recognition")]),
        (
            "Support vector machines (SVMs) and hidden Markov models [HMMs]",
            [("SVM", "Support vector machines"), ("HMM", "hidden Markov models")],
        ),
        ("part-of-speech (POS) tags", [("POS", "part-of-speech")]),
        ("test-time adaptation (TTA)", [("TTA", "test-time adaptation")]),
        ("neural machine translation (NMT; Sutskever 2014)", [("NMT", "neural machine translation")]),
        ("Reinforcement Learning from Human Feedback (RLHF)", [("RLHF", "Reinforcement Learning from Human Feedback")]),
        # One letter for each word, before the shortest text that has the letters.
        ("with proximal policy optimization (PPO)", [("PPO", "proximal policy optimization")]),
        ("African American English (AAE)", [("AAE", "African American English")]),
        ("for radiology report generation (RRG)", [("RRG", "radiology report generation")]),
        ("simultaneous speech translation (SST)", [("SST", "simultaneous speech translation")]),
        ("a theory of social sciences and humanities (SSH)", [("SSH", "social sciences and humanities")]),
        ("few-shot in-context learning (ICL)", [("ICL", "in-context learning")]),
        ("text-to-image (T2I) and end to end (E2E)", [("T2I", "text-to-image"), ("E2E", "end to end")]),
        ("inference for trials (I4T)", [("I4T", "inference for trials")]),
        ("ViNLI (Vietnamese Natural Language Inference)", [("ViNLI", "Vietnamese Natural Language Inference")]),
        ("gains in machine translation (IMT)", []),
        ("multi-task learning (TL)", []),
        ("the results (see Table 2) are good (USA)", []),
        ("it was shown before (Smith, 2010)", []),
        ("a good parser. It is fast (GPF)", []),
        ("of the (OT) rest", []),
        ("", []),
        ("((((", []),
    ],
)
def test_definitions(text, expected):
    assert [(found.short, found.long) for found in find_definitions(text)] == expected


@given(st.text(alphabet="abcNERM ()[]-.,", max_size=80))
def test_offsets_point_to_the_long_form(text):
    for found in find_definitions(text):
        assert text[found.start : found.start + len(found.long)] == found.long


def _expand(texts, *names):
    forest = Forest()
    for name in names:
        forest.keys[forest.add(name, "", name)].n = 1
    definitions = Definitions()
    for definition in define_acronyms(enumerate(texts)):
        definitions.add(*definition)
    expansions = collect_expansions(forest, definitions, "d{}".format, [""])

    def text(key):
        return forest.keys[key].text

    everywhere = {text(short): text(long) for short, long in expansions.everywhere.items()}
    local = {(document, text(short)): text(long) for (document, short), long in expansions.local.items()}
    return everywhere, local


def test_a_clear_acronym_is_expanded_everywhere():
    everywhere, local = _expand(["named entity recognition (NER)", "Named-Entity Recognition (NER)", "NER"], "NER")
    assert (everywhere, local) == ({"NER": "named entity recognition"}, {})


def test_an_ambiguous_acronym_is_expanded_where_it_is_defined():
    everywhere, local = _expand(["machine translation (MT)", "multitask training (MT)", "MT"], "MT")
    assert everywhere == {}
    assert local == {(0, "MT"): "machine translation", (1, "MT"): "multitask training"}


def test_a_rare_other_meaning_does_not_disturb_the_frequent_one():
    texts = [*["machine translation (MT)"] * 12, "multitask training (MT)"]
    everywhere, local = _expand(texts, "MT")
    assert everywhere == {"MT": "machine translation"}
    assert local == {(12, "MT"): "multitask training"}


def test_a_short_acronym_that_is_defined_once_stays_in_its_document():
    assert _expand(["random forest (RF)"], "RF") == ({}, {(0, "RF"): "random forest"})
    assert _expand(["random forest based trees (RFBT)"], "RFBT")[0] == {"RFBT": "random forest based tree"}


def test_an_ordinary_word_is_no_acronym():
    text = "regular cascade of labelled lists (ReCaLL)"
    assert len(find_definitions(text)) == 1
    assert _expand([text], "recall") == ({}, {})
