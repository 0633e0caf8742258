"""Knowledge graphs: merged entities, aggregated relations, and the evidence for both."""
