"""The paper's tables again: what each needs is trained, measured, and set beside the paper's figures."""
