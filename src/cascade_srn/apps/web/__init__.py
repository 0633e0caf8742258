"""The parts that web applications share: limits, security, refusals, metrics, static files."""
