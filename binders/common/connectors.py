"""The connector for Kafka, which engines have beside their own connector."""

from __future__ import annotations

from pathlib import Path

# Where the build puts it and where the wheel carries it.
KAFKA_CONNECTOR = Path(__file__).resolve().parents[1] / "jars" / "speck-kafka.jar"
