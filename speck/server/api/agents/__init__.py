"""The agents of sites: their requests, answers and metrics."""
