"""Label sentences with a language model as a one-off teacher, for a person to check and a small model to learn from."""
