"""The libraries of the extras that may be missing: LightGBM (``baselines``) and torch (``gnn``)."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from speck.errors import Fault, InvalidInput

INSTALL = "pip install 'speck[baselines]'"
INSTALL_TORCH = "pip install 'speck[gnn]'"


def library(name: str) -> Any:
    """The module ``lightgbm``.  Raises :class:`~speck.errors.InvalidInput`, naming the policy, without it."""
    return _library("lightgbm", name, INSTALL)


def torch_library(name: str) -> Any:
    """The module ``torch``.  Raises :class:`~speck.errors.InvalidInput`, naming the policy, without it."""
    return _library("torch", name, INSTALL_TORCH)


def _library(package: str, name: str, command: str) -> Any:
    try:
        return import_module(package)
    except (ImportError, OSError, ValueError) as error:  # without OpenMP, or (torch) the libraries of CUDA
        message = (
            f"policy {name!r} needs the package {package!r}, which cannot be loaded: {error} ({command})"
        )
        raise InvalidInput([Fault(message, field="policy", value=name)], "placement") from error


def installed() -> bool:
    """True if LightGBM is installed."""
    return find_spec("lightgbm") is not None
