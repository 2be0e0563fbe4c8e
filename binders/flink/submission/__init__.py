"""Submission of jobs to Flink: package, configuration, slots, jars, labels."""
