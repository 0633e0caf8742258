"""Models: building, model families, model folders and model cards."""
