"""Trials of SpecK's promises: kills, cuts and losses at chosen moments, and messages that are counted."""
