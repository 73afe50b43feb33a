"""What the library costs: import, streams, tool calls, whole bodies. Run with `python -m benchmarks`."""
