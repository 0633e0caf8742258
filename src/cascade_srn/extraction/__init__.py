"""Extraction from files into files: what ``cascade-srn extract`` does, as functions."""
