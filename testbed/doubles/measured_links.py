"""The measurements of links and cores that every engine with ``Capability.PROBES`` passes."""

from __future__ import annotations

from speck.binder import EngineBinder
from speck.testing.wire_trouble import Relay
from testbed.benches.mqtt_client import MqttClient
from testbed.servers.mosquitto import MosquittoServer


def check_links(engine: EngineBinder, broker: MosquittoServer) -> None:
    """Measure the link to a broker, and one that is farther, by the messages that arrive."""
    mqtt_client = MqttClient(broker.port, "speck/probe/#")
    near = engine.probe_link(broker.address)
    with Relay(broker.port, delay=0.05) as relay:
        far = engine.probe_link(f"tcp://127.0.0.1:{relay.port}")
    assert 0 < near.rtt < far.rtt
    assert far.rtt >= 0.05
    assert near.bandwidth > far.bandwidth > 0
    for probe in (near, far):
        assert 0 < probe.bytes_sent <= 4 << 20
    sizes = [len(payload) for _, payload in mqtt_client.received]
    mqtt_client.close()
    assert sizes.count(1) == 2 * 21
    assert sum(size for size in sizes if size > 1) == near.bytes_sent + far.bytes_sent


def check_core(engine: EngineBinder) -> None:
    """Measure a core."""
    probe = engine.probe_core()
    assert 1e4 < probe.keyed < 1e9  # readings/s: from a slow core to an impossible one
    assert 1e4 < probe.stateless < 1e9
