"""Extraction from large corpora: shards, workers, and tables that survive a crash."""
