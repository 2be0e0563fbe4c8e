"""From a job to a Flink job that runs: package, configuration, slots, jars, labels."""
