"""Jobs as text of a composition, and the programs that run in them; their paths are below the repository."""

from __future__ import annotations

SPARK_CODE = "testbed/programs/spark/simple.py"
FLINK_CODE = "jars_and_apps/flink/speck-flink-jobs.jar"


def job(name: str, engine: str, source: tuple[str, str], sink: tuple[str, str], code: tuple[str, str]) -> str:
    """A job of a composition; ``source`` and ``sink`` are broker and topic, ``code`` file and entry."""
    return (
        f"- {{job_name: {name}, spe_address: '{engine}', "
        f"source_broker: '{source[0]}', source_topic: {source[1]}, "
        f"sink_broker: '{sink[0]}', sink_topic: {sink[1]}, "
        f"job_path: {code[0]}, entry_class: {code[1]}}}\n"
    )
