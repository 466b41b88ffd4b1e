"""Bytes to columns: options, one pass over an input, what read_committed leaves out, lists of batches."""
