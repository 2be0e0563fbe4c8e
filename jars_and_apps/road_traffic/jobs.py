"""The four jobs of the road-traffic composition, as functions from DataFrame to DataFrame.

Each takes ``topic STRING, value STRING, timestamp TIMESTAMP`` and returns a ``value STRING``.  A value that
comes from a sensor is one CityPulse line::

    status,avgMeasuredTime,avgSpeed,extID,medianMeasuredTime,TIMESTAMP,vehicleCount,_id,REPORT_ID

Units: times s, speed km/h, ``vehicleCount`` vehicles in the interval; ``REPORT_ID`` names the road segment
between two measuring points; ``TIMESTAMP`` is local time, ISO 8601.

The file imports no module of its own, as a job's file must.  Only the functions import pyspark, so that the
feeder can share the grammar at a site without Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# --- the grammar of a well-formed line, in the part of the language that Java and Python read alike

# Explicit classes, since \d may mean other scripts' digits; 28 digits, so that a sum fits DECIMAL(38).
COUNT = r"[0-9]{1,28}"
MEASURE = r"[0-9]{1,28}(?:\.[0-9]{1,28})?"
LEAP_YEAR = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
MONTH_AND_DAY = (
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    r"|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
DATE = rf"(?!0000)(?:[0-9]{{4}}-{MONTH_AND_DAY}|{LEAP_YEAR}-02-29)"
TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
# Neither `$` nor `\Z`: the first stops before a final newline in both engines, the second in Java.
END = r"(?![\s\S])"
FIELDS = rf"OK,{MEASURE},{MEASURE},{COUNT},{MEASURE},{DATE}[T ]{TIME},{COUNT},{COUNT},{COUNT}"
READING = rf"^{FIELDS}{END}"
# The output of a forward job: a reading, and the site of its sensor.
SITED_READING = rf"^{FIELDS}(?:,[A-Za-z0-9._-]{{1,100}})?{END}"

# A quarter of an hour has three readings of a segment, and room for a repeated one.
READINGS_PER_SEGMENT = 4


def clean(messages: DataFrame) -> DataFrame:
    """Pass on well-formed readings unchanged; other lines are dropped, those that are no text included."""
    value = messages["value"].cast("string")
    return messages.where(value.rlike(READING)).select(value.alias("value"))


clean.value_type = "binary"  # type: ignore[attr-defined]


def forward(messages: DataFrame, site: str = "") -> DataFrame:
    """Pass on every reading, with the name of the ``site`` as a tenth field (none when empty)."""
    from pyspark.sql import functions as sf

    value = sf.concat_ws(",", messages["value"], sf.lit(site)) if site else messages["value"]
    return messages.select(value.alias("value"))


def local_stats(
    messages: DataFrame,
    site: str = "",
    window: str = "15 minutes",
    lateness: str = "2 days",
    slowest: int = 3,
    ahead: str = "1 day",
) -> DataFrame:
    """Statistics of the readings of one site, a JSON object for each window that changed.

    The object: ``site``, ``start`` and ``end`` of the window (local time), ``readings``, ``vehicles`` (sum),
    ``mean_speed`` (of the readings that saw a vehicle, else null) and ``slowest`` (segments with the lowest
    speed of such a reading).  Counts are running totals: a later object of a window replaces an earlier one.
    State covers ``lateness`` before the newest reading; older readings are dropped.

    A reading whose time is more than ``ahead`` ahead of the clock is an error of its message, about which the
    job's ``on_error`` decides: it would make all readings after it late.
    """
    return _statistics(messages, site, window, lateness, slowest, ahead)


def global_stats(
    messages: DataFrame,
    window: str = "15 minutes",
    lateness: str = "2 days",
    slowest: int = 3,
    ahead: str = "1 day",
) -> DataFrame:
    """Statistics of the readings of all sites, as :func:`local_stats`; ``site`` is ``*``."""
    return _statistics(messages, "*", window, lateness, slowest, ahead)


# The running result of an aggregate is written whenever it changes.
local_stats.output_mode = "update"  # type: ignore[attr-defined]
global_stats.output_mode = "update"  # type: ignore[attr-defined]


def _statistics(
    messages: DataFrame, site: str, window: str, lateness: str, slowest: int, ahead: str
) -> DataFrame:
    from pyspark.sql import functions as sf

    readings = _readings(messages, ahead).withWatermark("time", lateness)
    grouped = readings.groupBy(sf.window("time", window).alias("window"))
    saw_vehicles = sf.col("vehicles") > 0
    # One bounded heap a window holds the slowest readings: state does not grow with the number of them.
    slowness = sf.when(saw_vehicles, sf.struct("speed", "segment"))
    candidates = sf.min_by("segment", slowness, slowest * READINGS_PER_SEGMENT)
    statistics = grouped.agg(
        sf.count(sf.lit(1)).alias("readings"),
        sf.sum("vehicles").alias("vehicles"),
        sf.round(sf.avg(sf.when(saw_vehicles, sf.col("speed"))), 2).alias("mean_speed"),
        candidates.alias("slowest"),
    )
    # No vehicle seen, no slowest segment: an empty list, where min_by gives null.
    some = sf.coalesce("slowest", sf.array().cast("array<string>"))
    first_of_each = sf.slice(sf.array_distinct(some), 1, slowest)
    return statistics.select(
        sf.to_json(
            sf.struct(
                sf.lit(site).alias("site"),
                _iso(sf.col("window.start")).alias("start"),
                _iso(sf.col("window.end")).alias("end"),
                "readings",
                "vehicles",
                "mean_speed",
                first_of_each.alias("slowest"),
            ),
            {"ignoreNullFields": "false"},
        ).alias("value")
    )


def _readings(messages: DataFrame, ahead: str) -> DataFrame:
    """``time TIMESTAMP, speed DOUBLE (km/h), vehicles DECIMAL(28, 0), segment STRING``, of readings alone."""
    from pyspark.sql import functions as sf

    fields = sf.split("value", ",")
    # As UTC: a watermark needs TIMESTAMP, and the session's own zone may skip or repeat an hour.
    time = sf.concat(fields[5], sf.lit("Z")).cast("timestamp")
    # A malformed message must not end the query, as a failing cast would, again at each restart.
    return messages.where(messages["value"].rlike(SITED_READING)).select(
        _bounded(time, ahead).alias("time"),
        fields[2].cast("double").alias("speed"),
        fields[6].cast("decimal(28, 0)").alias("vehicles"),
        fields[8].alias("segment"),
    )


def _bounded(time: Column, ahead: str) -> Column:
    """The time; it fails for one of the far future.  There is no bound in the past: readings are replayed."""
    from pyspark.sql import functions as sf

    # The clock of the batch: one that runs again after a crash has the same.
    bound = sf.current_timestamp() + sf.lit(ahead).cast("interval")
    reason = sf.lit(" of a reading is too far ahead of the clock (argument 'ahead')")
    fault = sf.raise_error(sf.concat(sf.lit("the time "), _iso(time), reason))
    return sf.when(time > bound, fault.cast("timestamp")).otherwise(time)


def _iso(time: Column) -> Column:
    """The time in ISO 8601 as in the reading, independent of the session's time zone."""
    from pyspark.sql import functions as sf

    epoch = sf.lit("1970-01-01").cast("timestamp_ntz")
    local = epoch + sf.make_dt_interval(secs=sf.unix_seconds(time))
    return sf.replace(local.cast("string"), sf.lit(" "), sf.lit("T"))
