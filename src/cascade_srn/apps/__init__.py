"""Applications over the public names: extract, corpus, graph, annotation, service, integrations."""
