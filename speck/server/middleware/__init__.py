"""Steps before and after each request: authentication, origin, limits, checks of the query, metrics."""
