"""Raw text to sentences and words."""
