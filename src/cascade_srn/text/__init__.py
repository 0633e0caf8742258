"""Splitting of raw text into sentences and words."""
