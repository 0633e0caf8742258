"""The model: its parts, its family, its folder on disk and its model card."""
