"""Components for other libraries: spaCy, neo4j-graphrag, LlamaIndex and LangChain. Each module needs its extra."""
