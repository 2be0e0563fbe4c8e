"""The decisions of the adaptation loop; pure: no clock, no threads, no calls.

``situation`` has what a decision is made of, ``knowledge`` what is fresh, ``candidates`` derives the steps,
``triggers`` names the conditions that call for a decision at once, ``decide`` makes it, ``verdict`` judges a
step, and ``limits`` counts steps and bans.
"""
