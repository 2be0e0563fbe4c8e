"""SpecK composes one streaming application out of jobs on different engines at different sites."""

__version__ = "0.2.0.dev0"
