"""The explorer: a page over a graph; see ``docs/explorer.md``."""
