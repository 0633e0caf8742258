"""The server of the annotation page; see ``docs/annotate.md``."""
