"""Small helpers that know nothing of Kafka: text tables, lazy names, durable files, other libraries' tables."""
