"""SpecK's runtime for Python programs on Flink; it runs beside PyFlink on the JobManager."""
