"""The baselines that the cascade is compared with: PFN, Table-SRN and a pipeline (docs/baselines.md).

Nothing is imported here, so that a baseline is loaded only when a model of its family is used.
"""
