"""A Python program on Flink that writes local times."""

from __future__ import annotations

import sys

from pyflink.common import Types
from pyflink.table import StreamTableEnvironment

# A local time, its instant (s since 1970), and the local time of that.
LOCAL = (
    "SELECT CONCAT(f0, ' ', CAST(UNIX_TIMESTAMP(f0) AS STRING), ' ', "
    "DATE_FORMAT(TO_TIMESTAMP_LTZ(UNIX_TIMESTAMP(f0), 0), 'HH:mm')) FROM messages"
)


def with_zone(zone, row):
    """A row as text; fails on one of a year."""
    if row[0].startswith("1900-"):
        raise KeyError("no such year")
    return f"{row[0]} {zone}"


if __name__ == "__main__":
    from speck_flink.job import MqttJob

    job = MqttJob(sys.argv[1:])
    zone = job.timezone
    tables = StreamTableEnvironment.create(job.environment)
    tables.create_temporary_view("messages", job.texts())
    local = tables.to_data_stream(tables.sql_query(LOCAL))
    job.write(local.map(lambda row: with_zone(zone, row), Types.STRING()))
    job.execute()
