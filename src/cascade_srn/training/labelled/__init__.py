"""Texts labelled by a model, as training data."""
