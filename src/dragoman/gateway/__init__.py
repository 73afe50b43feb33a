"""The gateway: a request in any dialect in, an answer of any provider out, in the same dialect."""
