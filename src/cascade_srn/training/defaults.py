"""How to train if nobody says how: batch size, steps and rates by the number of sentences and the size of the encoder.

``cascade-srn init``, annotation projects and :func:`cascade_srn.train` follow this one rule, which
docs/training.md has as a table.
"""

from __future__ import annotations

import math
from typing import Any

# Largest number of sentences for a batch size. Few sentences need many small steps.
_BATCHES = {4: 50, 8: 400, 16: 1000, 32: math.inf}
# A training has at least this many steps, however few its sentences are. A GPU has the time for more.
FEWEST_STEPS, FEWEST_STEPS_ON_GPU = 240, 750
# From a trained model, if a person waits for suggestions. In few steps, the weights of new labels need a higher rate.
FEWEST_STEPS_TO_WAIT_FOR, _MOST_EPOCHS_TO_WAIT_FOR = 100, 20
_LABEL_RATE_TO_WAIT_FOR = 3.5e-3
# Sentences that training shows to the model in all epochs together, within the limits of the number of epochs.
_SENTENCES_SEEN, _FEWEST_EPOCHS, _MOST_EPOCHS = 56_000, 10, 30
# With few sentences, more epochs still help. A GPU has the time for them.
_MOST_EPOCHS_ON_GPU = 60
# Sentences of dev from which the best of several evaluations is more than luck. With fewer, the last weights count.
_ENOUGH_DEV = 100
_N_EVALUATIONS = 10
# Encoders up to this width learn with a higher rate.
SMALL_WIDTH = 512
# Sentences up to which words are masked and entities swapped, against learning single words by heart.
FEW_SENTENCES = 400
# A share of less than a layer freezes the embeddings only. They are half of the weights of a small encoder.
_EMBEDDINGS = 0.01


def default_training(
    n_sentences: int,
    *,
    width: int,
    n_dev: int = 0,
    epochs: int | None = None,
    is_awaited: bool = False,
    has_new_labels: bool = True,
    is_gpu: bool = False,
    is_fresh: bool = False,
) -> dict[str, Any]:
    """Return settings of a training by name, as in the section ``training`` of a recipe.

    Args:
        n_sentences: Sentences to learn from.
        width: Width of the vectors of the encoder, such as 384 (small) or 768 (base size).
        n_dev: Sentences to choose weights and thresholds on.
        epochs: Passes over the sentences, if they are not to be chosen.
        is_awaited: Whether a person waits for the model, and it starts from a trained one.
        has_new_labels: Whether the trained one lacks most of the labels.
        is_gpu: Whether a GPU trains.
        is_fresh: Whether the weights of the encoder are random.
    """
    n_sentences = max(1, n_sentences)
    is_few = n_sentences <= FEW_SENTENCES
    batch_size = next(size for size, most in _BATCHES.items() if n_sentences <= most)
    # In the many steps of a GPU on the fewest sentences, the encoder would change too much.
    small_rate = 1e-4 if is_gpu and batch_size == min(_BATCHES) else 2.5e-4
    is_short = is_awaited and not is_gpu and batch_size == min(_BATCHES)
    if epochs is None:
        most, fewest = _MOST_EPOCHS, FEWEST_STEPS
        if is_short:
            most, fewest = _MOST_EPOCHS_TO_WAIT_FOR, FEWEST_STEPS_TO_WAIT_FOR
        elif is_gpu:
            most, fewest = _MOST_EPOCHS_ON_GPU if is_few else _MOST_EPOCHS, FEWEST_STEPS_ON_GPU
        epochs = min(most, max(_FEWEST_EPOCHS, round(_SENTENCES_SEEN / n_sentences)))
        epochs = max(epochs, math.ceil(fewest / math.ceil(n_sentences / batch_size)))
    return {
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": 7e-4,
        **({"label_learning_rate": _LABEL_RATE_TO_WAIT_FOR} if is_short and has_new_labels else {}),
        "encoder_learning_rate": small_rate if width <= SMALL_WIDTH else 7e-5,
        "corruption": 0.2,
        "masking": 0.1 if is_few else 0.0,
        "swapping": 0.3 if is_few else 0.0,
        "frozen": _EMBEDDINGS if is_few and not is_gpu and not is_fresh else 0.0,
        "evaluate_every": max(1, epochs // _N_EVALUATIONS) if n_dev >= _ENOUGH_DEV else None,
    }
