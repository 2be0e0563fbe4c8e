"""How long it takes to deploy, modify and delete a chain of jobs over several sites, SpecK beside two others.

``python -m benchmarks.deploy``; see benchmarks/README.md.
"""
