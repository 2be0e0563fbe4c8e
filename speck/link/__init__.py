"""Calls of binders over a connection that a site's agent opens to the coordinator; see docs/agents.md.

The coordinator's end is :mod:`speck.link.hub` with the binders of :mod:`speck.link.remote`, the agent's end
:mod:`speck.link.dial`.
"""
