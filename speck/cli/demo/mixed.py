"""The demo with engines of three kinds: Spark Connect, Spark standalone and Flink."""

from __future__ import annotations

from speck.cli.demo.stages import Demo, Scenario


class MixedDemo(Demo):
    """The demo whose sites have other engines than Spark Connect too."""

    _scenario = Scenario(
        "road_traffic_mixed.yaml",
        "road_traffic_mixed_edited.yaml",
        {"C": ("flink",), "D": ("spark-standalone", "flink")},
    )
