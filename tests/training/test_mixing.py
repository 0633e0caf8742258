import random
from collections import Counter

import numpy as np
import pytest
from tests.small_models import SENTENCES, examples
from tests.training.distil.teachers import saved_teacher, write_text

from cascade_srn.errors import ConfigError, DataError
from cascade_srn.training.distil.labelling import Labelling
from cascade_srn.training.labelled import LabelledText
from cascade_srn.training.mixing import Gold, Mixture, Picked
from cascade_srn.training.settings import DistillationSettings
from cascade_srn.training.swapping import EntitySwaps

GOLD = examples(SENTENCES[:5])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("mixing")
    list(Labelling([saved_teacher(made / "teacher")], [write_text(made)], made / "labels", device="cpu"))
    return made / "labels"


@pytest.fixture
def labelled(folder):
    return LabelledText(folder)


@pytest.mark.parametrize(
    ("share", "batch_size", "n_labelled", "sizes"),
    [
        (0.5, 8, 4, [8] * 6),
        (0.9, 4, 3, [4] * 8),  # at least one is gold
        (0.01, 5, 1, [5] * 24),  # at least one is labelled
        (1.0, 10, 10, [10, 10, 4]),
        (0.7, 10, 7, [10, 10, 10, 5]),  # the last ones in proportion: 3 labelled, 2 gold
    ],
)
def test_batches_are_mixed_as_asked_for(labelled, share, batch_size, n_labelled, sizes):
    mixture = Mixture(GOLD, labelled, DistillationSettings(teacher_share=share))
    assert mixture.epoch_size(batch_size) == sum(sizes)
    for epoch in range(2):
        order = mixture.order(batch_size, random.Random(epoch))
        assert len(order) == sum(sizes)
        batches = [order[at : at + batch_size] for at in range(0, len(order), batch_size)]
        assert [len(batch) for batch in batches] == sizes
        for batch in batches[:-1]:
            assert sum(number >= len(GOLD) for number in batch) == n_labelled
        counts = Counter(order)
        # Every labelled sentence once, and gold ones about equally often.
        assert [counts[number] for number in range(len(GOLD), len(GOLD) + 24)] == [1] * 24
        gold = [counts[number] for number in range(len(GOLD))]
        assert max(gold) - min(gold) <= 1
        assert sum(gold) == sum(sizes) - 24


def test_sentences_by_their_numbers(labelled):
    settings = DistillationSettings(teacher_weight=0.5)
    mixture = Mixture(GOLD, labelled, settings, context_words=3)
    assert mixture.example(2) is GOLD[2]
    assert mixture.n_words(2) == len(GOLD[2].sentence)
    example = mixture.example(len(GOLD) + 4)
    assert example.sentence == labelled.sentence(4)
    assert (example.weight, example.soft) == (0.5, labelled.soft(4))
    assert len(example.left) == len(example.right) == 3
    assert mixture.n_words(len(GOLD) + 4) == len(example.sentence)
    hard = Mixture(GOLD, labelled, DistillationSettings(hard=True)).example(len(GOLD) + 4)
    assert (hard.sentence, hard.weight, hard.soft) == (example.sentence, 1.0, None)


def test_gold_alone_is_shuffled_as_ever():
    gold, expected = Gold(GOLD), list(range(5))
    random.Random(3).shuffle(expected)
    assert gold.order(2, random.Random(3)) == expected
    assert gold.epoch_size(2) == 5


def test_a_batch_is_made_when_it_is_asked_for(labelled):
    mixture = Mixture(GOLD, labelled, DistillationSettings())
    picked = Picked(mixture, [1, 7, 0, 20])
    assert len(picked) == 4
    assert picked[1] == mixture.example(7)
    assert picked[::2] == [GOLD[1], GOLD[0]]
    assert picked.lengths() == [len(example.sentence) for example in picked]


def test_a_share_of_the_gold_sentences_gets_noise(labelled):
    gold, numbers = Gold(GOLD), list(range(5)) * 40
    assert list(Picked(gold, numbers[:5], noise=0.0, key="0 1")) == GOLD
    drawn = [Picked(gold, numbers[:5], noise=0.5, key=f"0 {epoch}")[:] for epoch in range(40)]
    assert drawn[3] == list(Picked(gold, numbers[:5], noise=0.5, key="0 3"))
    changed = sum(one.sentence.words != GOLD[at].sentence.words for row in drawn for at, one in enumerate(row))
    assert 10 < changed < 100  # most kinds leave the words of short sentences in lower case unchanged
    for row in drawn:
        for at, one in enumerate(row):
            assert len(one.sentence.entities) == len(GOLD[at].sentence.entities)
            assert (one.left, one.right) == (GOLD[at].left, GOLD[at].right)
    swapped = Picked(gold, numbers[:5], swapping=1.0, swaps=EntitySwaps(e.sentence for e in GOLD), key="0 3")
    assert [len(one.sentence.entities) for one in swapped] == [len(one.sentence.entities) for one in GOLD]
    assert list(swapped) == list(swapped)
    assert list(swapped) != GOLD


def test_labels_of_teachers_belong_to_the_words_that_they_saw(labelled):
    soft = Mixture(GOLD, labelled, DistillationSettings())
    assert Picked(soft, [7], noise=0.0, swapping=1.0, swaps=EntitySwaps([]), key="0")[0] == soft.example(7)
    kept = []
    for number in range(5, 29):
        clean, noisy = soft.example(number), Picked(soft, [number], noise=1.0, key="0")[0]
        kept.append(len(noisy.sentence) == len(clean.sentence))
        assert noisy.soft == (clean.soft if kept[-1] else None)
        assert (noisy.weight, noisy.left) == (clean.weight, clean.left)
        assert noisy.sentence.triples == clean.sentence.triples or not kept[-1]
    assert 10 < sum(kept) < 24  # the others have lost their punctuation


def test_uncertain_sentences_are_left_out_and_counted(labelled):
    bound = float(np.median(labelled.certainty.min(axis=1)))
    mixture = Mixture(GOLD, labelled, DistillationSettings(confidence=bound))
    certain = [i for i in range(24) if all(value >= bound for value in labelled.certainty[i])]
    assert mixture.kept.tolist() == certain
    assert 0 < mixture.n_uncertain == 24 - len(certain) < 24
    order = mixture.order(8, random.Random(0))
    assert {number - 5 for number in order if number >= 5} == set(certain)
    with pytest.raises(DataError, match="24 labelled sentences"):
        Mixture(GOLD, labelled, DistillationSettings(confidence=1.0))


def test_a_batch_of_one_cannot_be_mixed(labelled):
    with pytest.raises(ConfigError, match="batch_size is 1"):
        Mixture(GOLD, labelled, DistillationSettings()).epoch_size(1)
    assert Mixture(GOLD, labelled, DistillationSettings(teacher_share=1.0)).epoch_size(1) == 24


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"teacher_share": 0}, "teacher_share is 0.0"),
        ({"teacher_share": 1.1}, "teacher_share is 1.1"),
        ({"teacher_weight": 0}, "teacher_weight is 0.0"),
        ({"temperature": 0}, "temperature is 0.0"),
        ({"confidence": 2}, "confidence is 2.0"),
        ({"hard": True, "temperature": 2}, "temperature is 2"),
        ({"teacher_weigth": 1}, "'teacher_weight'"),
    ],
)
def test_settings_that_make_no_sense(values, message):
    with pytest.raises(ConfigError) as caught:
        DistillationSettings.from_dict(values)
    assert message in str(caught.value)
