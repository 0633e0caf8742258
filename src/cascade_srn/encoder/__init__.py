"""Encoders: words to vectors (pretrained encoder), vectors to task-specific representations (sequence encoder)."""
