"""CUDA graphs of whole searches over small batches."""
