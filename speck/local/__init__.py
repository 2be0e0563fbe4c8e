"""Engines and brokers of this machine: sites started, found again and stopped by what they are."""
