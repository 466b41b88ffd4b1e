"""What the operations share that rewrite batches

batches       the input: its segments, the header of each batch, and which rows are its records
new_batches   the header of a new batch, an empty batch
"""
