"""Random placement problems, and training data made of them by simulation."""
