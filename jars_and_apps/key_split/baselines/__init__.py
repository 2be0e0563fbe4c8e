"""Partitioners for comparison: rules of the literature, a stress, and the trained policies of one of them."""
