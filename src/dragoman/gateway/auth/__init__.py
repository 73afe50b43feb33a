"""API keys, and who a request belongs to."""
