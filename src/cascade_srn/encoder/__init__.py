"""From words to task-specific representations: a pretrained encoder, then a sequence encoder."""
