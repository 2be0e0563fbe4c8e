"""A page with the map of geofencing: movers, fences and events as they come from the brokers."""
