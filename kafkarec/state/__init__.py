"""State derived from a log: producers, transactions, leader epochs, and the side files that a broker writes from it."""
