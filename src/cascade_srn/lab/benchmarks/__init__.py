"""What things cost, measured side by side; ``docs/benchmarks.md`` says how to read the figures."""
