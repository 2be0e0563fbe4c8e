"""SpecK composes one streaming application out of jobs on different engines at different sites."""

__version__ = "0.1.0"
