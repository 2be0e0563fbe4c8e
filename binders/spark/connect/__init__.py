"""The engine binder for Spark Connect servers."""
