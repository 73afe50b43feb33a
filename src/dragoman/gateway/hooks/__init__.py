"""Hooks of the gateway: code of the operator that sees each request and each answer, and may change or refuse them."""
