"""Who can be called: providers, model families, DSNs and the config file."""
