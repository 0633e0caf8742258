"""Comparisons and measurements: benchmarks, the tables of the paper, baselines."""
