"""Many requests as rows: reading and writing rows, sending them one by one or as batches of a provider."""
