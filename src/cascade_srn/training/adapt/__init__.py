"""Adapt a pretrained encoder to a domain by masked-language-model training on raw text.

:class:`.run.Adaptation` runs an adaptation. It needs torch and is imported from its own module.
"""

from cascade_srn.training.adapt.settings import AdaptProgress, AdaptSettings

__all__ = ["AdaptProgress", "AdaptSettings"]
