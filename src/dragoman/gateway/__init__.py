"""The gateway: clients of any dialect use any provider through it."""
