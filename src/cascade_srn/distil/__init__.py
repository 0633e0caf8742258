"""Teaching a model by others: raw text labelled with their probabilities, for a student to learn from.

What needs torch is imported from its own module: :class:`~cascade_srn.distil.labelling.Labelling` writes labels,
:class:`~cascade_srn.data.labelled.labels.LabelledText` reads them.
"""

from cascade_srn.distil.settings import LabelSettings

__all__ = ["LabelSettings"]
