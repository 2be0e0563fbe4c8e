"""Answers about the state of compositions, sites and measurements; nothing is changed."""
