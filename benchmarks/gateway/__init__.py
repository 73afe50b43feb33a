"""What a gateway adds between a client and a provider, beside others. Run with `python -m benchmarks.gateway`."""
