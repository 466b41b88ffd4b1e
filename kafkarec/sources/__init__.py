"""Bytes of files, buckets and Python objects. Knows nothing of Kafka.

files   a file by pread, a memory map, a Python file object
"""
