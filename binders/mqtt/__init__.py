"""The MQTT 5 binder: persistent sessions, fences, and the limits of a broker.  See docs/mqtt.md."""

from __future__ import annotations

from binders.mqtt.broker import MqttBroker
from binders.mqtt.local import MOSQUITTO
from speck.binder import BrokerKind

MQTT = BrokerKind("mqtt", ("tcp", "mqtt", "mqtts", "ssl"), MqttBroker, local=MOSQUITTO)

__all__ = ["MQTT", "MqttBroker"]
