"""Helpers without Kafka: the logger, text tables, threads, durable files, Parquet folders."""
