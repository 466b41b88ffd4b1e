"""State derived from a log: producers, transactions, leader epochs, and the side files derived from it."""

from datetime import timedelta

HANGING_AFTER = timedelta(minutes=15)
"""The default of transaction.max.timeout.ms, which `kafka-transactions.sh find-hanging` assumes too."""
