"""Extraction from many texts: read them from files, run the extractor, write the documents."""
