"""Time to deploy, modify and delete a chain of jobs over several sites, with SpecK and in two other ways.

``python -m benchmarks.deploy``; see benchmarks/README.md.
"""
