"""Learned baselines for the placement of jobs: the policies ``flatvec`` and ``costream``.

A package beside :mod:`speck`, which finds it by the entry points of the group ``speck.policies``.
Predictions need LightGBM, the extra ``speck[learned]``; without it the policies answer with the command that
installs it.
"""
