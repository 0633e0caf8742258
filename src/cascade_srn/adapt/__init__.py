"""Adapting a pretrained encoder to a field: masked-language-model training on its raw text.

What needs torch is imported from its own module: :class:`~cascade_srn.adapt.run.Adaptation` is the whole of it.
"""

from cascade_srn.adapt.settings import AdaptProgress, AdaptSettings

__all__ = ["AdaptProgress", "AdaptSettings"]
