"""The agent of a site: runs the jobs of its coordinator on, with or without it; see docs/agents.md.

The coordinator decides which attempt of a job may run at the site.  The agent stores each attempt before its
engine is asked, and starts the same attempt again when the engine has lost it.
"""
