"""What a log means: producers, transactions, leader epochs, and the side files that a broker derives from it."""
