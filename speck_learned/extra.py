"""The library of the extra ``speck[learned]``, which may be missing."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from speck.errors import Fault, InvalidInput

INSTALL = "pip install 'speck[learned]'"


def library(name: str) -> Any:
    """The module ``lightgbm``.  Raises :class:`~speck.errors.InvalidInput`, naming the policy, without it."""
    try:
        import lightgbm
    except (ImportError, OSError) as error:  # OSError: without the runtime of OpenMP
        message = f"policy {name!r} needs the package 'lightgbm', which cannot be loaded: {error} ({INSTALL})"
        raise InvalidInput([Fault(message, field="policy", value=name)], "placement") from error
    return lightgbm


def installed() -> bool:
    """True if LightGBM is installed."""
    return find_spec("lightgbm") is not None
