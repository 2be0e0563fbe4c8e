"""The placement policies against each other, on random compositions."""
