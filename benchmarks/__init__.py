"""CPU time and memory of the library: import, streams, tool calls, whole bodies. Run `python -m benchmarks`."""
