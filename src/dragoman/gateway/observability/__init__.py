"""Metrics, traces, the access log and health."""
