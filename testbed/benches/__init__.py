"""Engines, brokers and coordinators together with jobs, ready for trials."""
