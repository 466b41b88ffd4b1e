"""Helpers without Kafka: the logger, text tables, durable files, conversion to other libraries' tables."""
