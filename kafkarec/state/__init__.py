"""State derived from a log: producers, transactions, leader epochs, and the side files derived from it."""
