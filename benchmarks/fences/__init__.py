"""Figures of geofencing: its functions alone, and the whole composition on engines."""
