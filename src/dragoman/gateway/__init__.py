"""One process in front of all providers: any dialect in, any provider out."""
