"""What batches and damage prove without files: header fields that are restored, the order of offsets."""
