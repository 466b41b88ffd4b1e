"""What callers hold: columns of records and of batches, and single records and batches as views on them."""
