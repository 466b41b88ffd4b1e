"""Small helpers that know nothing of Kafka: the logger, text tables, durable files, other libraries' tables."""
