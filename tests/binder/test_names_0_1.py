"""Binders of other packages go on with the names of version 0.1."""

from __future__ import annotations

import importlib

import pytest

import speck.binder
from speck import errors
from speck.core import inventory, job, runtime


@pytest.mark.parametrize("name", sorted(speck.binder._NAMES_0_1))
def test_a_protocol_is_found_by_its_old_name(name: str) -> None:
    assert getattr(speck.binder, name) is speck.binder._NAMES_0_1[name]


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'TellsNothing'"):
        _ = speck.binder.TellsNothing  # type: ignore[attr-defined]


def test_errors_are_raised_by_their_old_names() -> None:
    assert errors.NoAnswer is errors.OutcomeUnknown
    assert errors.Refused is errors.Rejected
    assert errors.NoSecret is errors.SecretUnavailable


def test_the_nouns_are_found_in_their_old_modules() -> None:
    model = importlib.import_module("speck.model")
    assert (model.Job, model.Attempt) == (job.Job, runtime.Attempt)
    assert importlib.import_module("speck.inventory").Inventory is inventory.Inventory
