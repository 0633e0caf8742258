"""The light runtime: exported models, which run with ONNX Runtime and NumPy, without torch and transformers."""
