"""Making models: training on annotated documents, adapting encoders, distilling, exporting."""
