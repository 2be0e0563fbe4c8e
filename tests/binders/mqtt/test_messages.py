"""Received messages, which may be thousands at a time, take little memory."""

from __future__ import annotations

from paho.mqtt.client import MQTTMessage
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from binders.mqtt.connection import without_tables


def received(number: int) -> MQTTMessage:
    message = MQTTMessage(number, b"topic")
    message.properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    setattr(message.properties, "UserProperty", ("number", str(number)))  # noqa: B010
    return message


def test_messages_share_the_tables_of_their_properties() -> None:
    first, second = (without_tables(received(number)) for number in (1, 2))
    for name in ("types", "names", "properties"):
        assert vars(first.properties)[name] is vars(second.properties)[name]
    for number, message in ((1, first), (2, second)):
        assert getattr(message.properties, "UserProperty") == [("number", str(number))]  # noqa: B009


def test_a_message_without_properties_stays_as_it_is() -> None:
    message = MQTTMessage(1, b"topic")
    assert without_tables(message) is message
    assert message.properties is None
