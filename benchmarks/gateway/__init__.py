"""The overhead of gateways between a client and a provider. Run `python -m benchmarks.gateway`."""
