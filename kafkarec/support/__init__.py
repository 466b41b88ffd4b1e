"""Helpers without Kafka: the logger, text tables, durable files, Parquet folders."""
