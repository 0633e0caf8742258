"""Baselines for comparison with the cascade: PFN, Table-SRN and a pipeline (docs/baselines.md).

This package imports none of its modules, so that a baseline is loaded only when a model of its family is used.
"""
