"""Files, folders, locks and downloads."""
