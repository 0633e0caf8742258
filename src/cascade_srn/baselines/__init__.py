"""What the cascade is compared with, in the same frame: PFN, Table-SRN and a pipeline (docs/baselines.md)."""

from cascade_srn.baselines.build import BASELINES

__all__ = ["BASELINES"]
