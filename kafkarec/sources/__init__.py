"""Bytes of files, buckets and Python objects. Knows nothing of Kafka.

files           a file by pread, a memory map, a Python file object
packed          the content of a gzip or zstd file
folders         lists folders, local and remote; reads and opens their files
remote*         URLs: range reads and listings by fsspec, and the errors of its packages in one line
read_failures   why a file cannot be read, and what to do about it
"""
