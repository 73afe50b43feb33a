"""Targets: provider records, model families, DSNs and the config of providers and aliases."""
