"""Shared by the binders of several engines: Java, Python source, class archives, TLS and HTTP errors."""
