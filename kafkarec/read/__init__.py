"""Decodes batches to columns: options, one pass over an input, read_committed, columns whose values are batches."""
