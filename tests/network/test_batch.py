"""Transfer of batches to a device: complete, in one copy, and unchanged."""

from dataclasses import dataclass

import pytest
import torch
from tests.network.soft_sentences import gold, soft_examples
from tests.small_models import NESTED, NO_ENTITY, SAME_SPAN, SENTENCES, SHARED_SUBJECT, examples, small_model

from cascade_srn.network import batch as moving
from cascade_srn.network.batch import _collect, _move_in_one_copy, _replace_tensors, to_device

CPU = torch.device("cpu")


def tensors_of(batch):
    found = []
    _collect(batch, found)
    return found


def test_a_batch_moves_to_a_device_with_all_it_holds():
    batch = small_model("early").collator.training_batch(examples(SENTENCES)).to("meta")
    found = tensors_of(batch)
    # Rows 7, labels of given entities 4, queries 3, two lists of pairs 6, three turns 9, and 3 others.
    assert len(found) == 7 + 4 + 3 + 6 + 9 + 3
    assert {tensor.device.type for tensor in found} == {"meta"}
    assert batch.n_sentences == len(SENTENCES)


@pytest.mark.parametrize("method", ["pfn", "table-srn", "pipeline"])
def test_a_batch_of_a_baseline_moves_to_a_device(method):
    batch = small_model(method=method).collator.training_batch(examples(SENTENCES))
    there = batch.to("meta")
    assert {tensor.device.type for tensor in tensors_of(there)} == {"meta"}
    assert [t.shape for t in tensors_of(there)] == [t.shape for t in tensors_of(batch)]
    assert there.n_sentences == len(SENTENCES)


@pytest.mark.parametrize("method", ["cascade", "pfn", "pipeline"])
def test_tensors_that_move_together_stay_what_they_are(method):
    batch = small_model(method=method).collator.training_batch(examples(SENTENCES))
    found = tensors_of(batch)
    there = _move_in_one_copy(found, CPU)
    assert len({tensor.dtype for tensor in there}) > 1
    for before, after in zip(found, there, strict=True):
        assert before.dtype == after.dtype
        assert torch.equal(before, after)
    again = tensors_of(_replace_tensors(batch, iter(there)))
    assert all(one is other for one, other in zip(there, again, strict=True))


def test_floats_move_with_integers():
    model = small_model()
    soft, _ = soft_examples([NESTED, NO_ENTITY, SHARED_SUBJECT], model.schema, weight=0.3)
    found = tensors_of(model.collator.training_batch([*soft, gold(SAME_SPAN)]))
    assert sum(tensor.dtype == torch.float32 for tensor in found) == 10
    for one, other in zip(found, _move_in_one_copy(found, CPU), strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_floats_other_than_float32_are_refused(dtype):
    with pytest.raises(TypeError, match=str(dtype)):
        _move_in_one_copy([torch.tensor([0.5], dtype=dtype)], CPU)


@dataclass(frozen=True)
class Small:
    """A batch of one tensor."""

    numbers: torch.Tensor


def test_a_batch_on_the_device_is_not_copied(monkeypatch):
    batch = Small(torch.arange(3))
    monkeypatch.setattr(moving, "_move_in_one_copy", lambda *_: pytest.fail("nothing has to move"))
    assert to_device(batch, "cpu") is batch
