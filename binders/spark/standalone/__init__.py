"""The binder for Spark standalone clusters, and the driver that runs there."""
