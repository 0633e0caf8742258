"""Encoder passes: each reads some windows of a batch, padded to the same number of pieces."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from cascade_srn.encoder.pieces import RowBatch


def split_passes(rows: RowBatch) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield ids and mask of each pass. Shapes: (n_windows, n_pieces) each."""
    first = 0
    for n_windows, width in rows.passes:
        yield rows.piece_ids[first : first + n_windows, :width], rows.piece_mask[first : first + n_windows, :width]
        first += n_windows


def read_pass(model: Any, ids: Tensor, mask: Tensor) -> Tensor:
    """Run an encoder of transformers.

    Shapes: ids, mask (n_windows, n_pieces); returns (n_windows × n_pieces, width)
    """
    hidden: Tensor = model(input_ids=ids, attention_mask=mask.long())[0]
    return hidden.flatten(0, 1)
