"""API keys, and who sent a request."""
