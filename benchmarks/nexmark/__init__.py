"""Nexmark over the wide area rig: every policy's placement of every query, measured."""
