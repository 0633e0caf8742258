"""The HTTP service that runs a model for many clients; see ``docs/serve.md``."""
