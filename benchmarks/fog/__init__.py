"""Figures 8 and 10 of the SpecK paper: processing near the data against processing in the cloud."""
