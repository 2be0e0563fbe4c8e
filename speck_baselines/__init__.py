"""Placement policies for comparison: rules of other systems and of the literature, and learned policies.

A package beside :mod:`speck`, which finds it by the entry points of the group ``speck.policies.comparison``
and imports a policy of it when that is asked for.  The rules need nothing but SpecK; policies that predict by
trees need LightGBM, the extra ``speck[baselines]``.
"""
