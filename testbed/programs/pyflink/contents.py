"""Python programs on Flink that pass on contents, which need not be text."""

from __future__ import annotations

import sys


def as_they_are(texts):
    """Hands the messages on."""
    return texts


def mapped(contents):
    """Each message as bytes, through a Python function of a type unknown to Flink; one as a number."""
    return contents.map(
        lambda content: len(content) if content == b"length" else bytes(reversed(bytes(reversed(content))))
    )


mapped.value_type = "binary"


def unknown(contents):
    """Requests a type that there is not."""
    return contents


unknown.value_type = "bytes"


def placed(texts, place):
    """Each message with the name of a place."""
    return texts.map(lambda text: f"{text} {place}")


if __name__ == "__main__":
    from speck_flink.job import MqttJob

    job = MqttJob(sys.argv[1:])
    described = job.messages().map(
        lambda row: f"{row.topic}|{row.key}|{row.timestamp > 0}|".encode() + row.value
    )
    job.write(described)
    job.execute()
