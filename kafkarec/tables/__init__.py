"""Columns of records and of batches, and single records and batches read from them."""
