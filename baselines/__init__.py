"""Training recipes, one readable file an algorithm, over shared and tested maths. They need the extra `llm`."""
