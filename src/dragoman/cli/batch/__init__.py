"""The work of `dragoman batch`: rows, workers, the output file and the progress bar."""
