"""The binders that come with SpecK, each found by its entry point."""
