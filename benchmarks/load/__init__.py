"""The load generator of the benchmarks: a Java program, and what starts and measures processes around it."""
