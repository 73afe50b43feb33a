"""Reasoning that a provider signs or encrypts travels through clients of other dialects, and back."""
