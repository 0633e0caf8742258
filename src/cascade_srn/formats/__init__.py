"""Annotated documents: one module per format, the registry, alignment of characters with words."""
