"""Choose decision thresholds and fit score calibration on development data."""
