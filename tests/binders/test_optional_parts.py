"""The optional parts of each shipped binder, by name.

The contract's cases for an optional part skip a binder without it, so that a method lost by accident stops no
test but this one.
"""

from __future__ import annotations

import inspect

import pytest

from binders.flink.engine import FlinkEngine
from binders.kafka.broker import KafkaBroker
from binders.mqtt.broker import MqttBroker
from binders.spark.connect.engine import ConnectEngine
from binders.spark.standalone.engine import StandaloneEngine
from speck.binder import BrokerBinder, Capability, EngineBinder
from testbed.doubles.broker import InMemoryBroker
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.logs import InMemoryLog

COMMON = {Capability.OFFLINE_STATE, Capability.PLANS, Capability.PROFILES}
REAL = COMMON | {Capability.PROBES}
CAPABILITIES = {
    FlinkEngine: REAL | {Capability.DISPOSE, Capability.PROGRESS, Capability.READINESS, Capability.WORKERS},
    ConnectEngine: REAL | {Capability.READINESS, Capability.RESUMPTION, Capability.TRANSFER},
    StandaloneEngine: REAL | {Capability.WORKERS},
    InMemoryEngine: COMMON | {Capability.READINESS, Capability.WORKERS},
    KafkaBroker: {Capability.BACKLOG, Capability.PARTITIONS, Capability.REPLAY},
    MqttBroker: {Capability.REPORTS, Capability.TRACING},
    InMemoryBroker: {Capability.REPORTS, Capability.TRACING},
    InMemoryLog: {
        Capability.BACKLOG,
        Capability.PARTITIONS,
        Capability.REPLAY,
        Capability.REPORTS,
        Capability.TRACING,
    },
}
# The methods that have the default of the contract.
DEFAULTS = {
    FlinkEngine: {"last_ended", "reported", "take_artifacts"},
    ConnectEngine: {"check_acceptance", "last_ended", "measure", "reported", "take_artifacts"},
    StandaloneEngine: {"last_ended", "reported"},
    InMemoryEngine: {"check_acceptance", "measure", "reported", "state_fault", "state_of", "take_artifacts"},
    KafkaBroker: {
        *("dropped", "packet_bytes", "restore_session", "stored", "stored_bytes", "stranded", "unsaved"),
    },
    MqttBroker: {"ensure_topic", "purge"},
    InMemoryBroker: {"checkup", "ensure_topic", "purge"},
    InMemoryLog: {"checkup"},
}


@pytest.mark.parametrize("binder", CAPABILITIES, ids=lambda binder: binder.__name__)
def test_a_binder_has_all_its_capabilities(binder: type[EngineBinder] | type[BrokerBinder]) -> None:
    assert binder.capabilities == CAPABILITIES[binder]


@pytest.mark.parametrize("binder", DEFAULTS, ids=lambda binder: binder.__name__)
def test_a_binder_leaves_no_more_to_the_defaults(binder: type[EngineBinder] | type[BrokerBinder]) -> None:
    base = EngineBinder if issubclass(binder, EngineBinder) else BrokerBinder
    optional = {method for each in Capability for method in each.value}
    methods = [name for name, _ in inspect.getmembers(base, inspect.isfunction) if not name.startswith("_")]
    inherited = {each for each in methods if getattr(binder, each) is getattr(base, each)}
    assert inherited - optional == DEFAULTS[binder]
