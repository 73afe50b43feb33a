"""JSON Schema from Python types, adapted to providers, and values read back from JSON."""
