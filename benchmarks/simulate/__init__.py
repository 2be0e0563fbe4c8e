"""Simulators of placed compositions, and of the loop that adapts them; not a part of the product."""
