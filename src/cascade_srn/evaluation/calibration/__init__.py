"""Choose decision thresholds and temperatures on development data."""
