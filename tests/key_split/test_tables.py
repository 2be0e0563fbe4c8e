"""The partitioners that the schema accepts are those that the sites have, with the same options."""

from __future__ import annotations

import dataclasses

from jars_and_apps.key_split.partitioners.table import PARTITIONERS as CLASSES
from speck.core.split import PARTITIONERS


def test_the_tables_are_the_same() -> None:
    assert PARTITIONERS.keys() == CLASSES.keys()
    for name, kind in PARTITIONERS.items():
        options = {each: dataclasses.astuple(option) for each, option in kind.options.items()}
        there = {each: dataclasses.astuple(option) for each, option in CLASSES[name].options.items()}
        assert options == there, name
