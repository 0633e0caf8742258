"""CUDA graphs of the encoder: in training, and for large batches in prediction."""
