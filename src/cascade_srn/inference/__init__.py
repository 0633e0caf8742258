"""Prediction: batching, search, decoding, thresholds and streaming."""
