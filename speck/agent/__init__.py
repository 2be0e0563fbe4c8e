"""The agent of a site: runs the jobs of its coordinator on, with or without it; see docs/agents.md.

The coordinator decides which attempt of a job may run at the site.  The agent stores each attempt before its
engine is asked, and starts the same attempt again when the engine has lost it.
"""

# For its process: glibc would give each thread an arena of its own, 0.6 MB in all, and most only wait.
ENVIRONMENT = {"MALLOC_ARENA_MAX": "1"}
