"""Annotate texts with the help of a model: choose them, store the annotations, learn from them."""
