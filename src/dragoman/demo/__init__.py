"""The embedded `demo` provider: try everything without a key and without a network."""
