"""Learned baselines for the placement of jobs: the policies ``flatvec``, ``costream`` and ``costream-trees``.

SpecK finds them by the entry points of the group ``speck.policies.comparison``.
Predictions by trees need LightGBM, the extra ``speck[baselines]``; without it those policies answer with the
command that installs it.  The network of ``costream`` predicts with numpy, and trains with torch, the extra
``speck[gnn]``.
"""
