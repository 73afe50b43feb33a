"""Everything that waits: the driver of plans, HTTP transports, threads and tasks."""
