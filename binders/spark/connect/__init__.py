"""The binder for Spark Connect servers."""
