"""The network of the paper: sequence encoders, fusion, span extraction, the cascade, its batches and its loss."""
