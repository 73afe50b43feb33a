"""`dragoman batch`: many rows, safe to stop and run again."""
