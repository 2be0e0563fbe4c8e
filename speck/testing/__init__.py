"""The contract of binders as tests, for the binders of this package and of others.

Inherit :class:`EngineContract` or :class:`BrokerContract`, and supply what their docstrings ask for.  They
need pytest, which the extra ``speck[testing]`` installs; the other names do not.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from speck.testing.brokers import BrokerContract
    from speck.testing.engine_bench import EngineBench
    from speck.testing.engines import EngineContract
    from speck.testing.loopback import LoopbackBench, LoopbackBrokerContract
    from speck.testing.waiting import attempt_of, await_state, eventually
    from speck.testing.wire_trouble import BrokenServer, Listener, Mischief, MischiefRelay, Relay, Trouble

__all__ = [
    "BrokenServer",
    "BrokerContract",
    "EngineBench",
    "EngineContract",
    "Listener",
    "LoopbackBench",
    "LoopbackBrokerContract",
    "Mischief",
    "MischiefRelay",
    "Relay",
    "Trouble",
    "attempt_of",
    "await_state",
    "eventually",
]

_SUITES = frozenset({"BrokerContract", "EngineContract", "LoopbackBrokerContract"})
_MODULES = {
    "BrokerContract": "brokers",
    "EngineBench": "engine_bench",
    "EngineContract": "engines",
    "LoopbackBench": "loopback",
    "LoopbackBrokerContract": "loopback",
    "attempt_of": "waiting",
    "await_state": "waiting",
    "eventually": "waiting",
}


def __getattr__(name: str) -> object:
    """Import a name when it is used: what inherits no contract loads no pytest."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = f"{__name__}.{_MODULES.get(name, 'wire_trouble')}"
    if name in _SUITES:
        _explain_asserts(*(f"{__name__}.{each}" for each in ("brokers", "engine_checks", "engines")))
    return getattr(import_module(module), name)


def _explain_asserts(*modules: str) -> None:
    """Make pytest show the values of a failed assertion, as it does in test modules."""
    for module in modules:
        if module not in sys.modules:
            import_module("pytest").register_assert_rewrite(module)
