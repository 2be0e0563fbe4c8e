"""Trials of the design's promises: what must not happen is provoked, and counted."""
