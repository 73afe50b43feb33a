"""One vocabulary for every LLM provider's protocol."""
