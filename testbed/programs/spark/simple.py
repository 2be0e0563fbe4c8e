"""Jobs for tests of the Spark binder; each takes messages and gives messages."""

from __future__ import annotations

import time

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812


def upper(messages: DataFrame, suffix: str = "") -> DataFrame:
    """Each message in capitals, with a suffix."""
    return messages.select(F.concat(F.upper(F.col("value").cast("string")), F.lit(suffix)).alias("value"))


class Upper:
    """The same as a class."""

    def __init__(self, suffix: str = "") -> None:
        self.suffix = suffix

    def __call__(self, messages: DataFrame) -> DataFrame:
        return upper(messages, self.suffix)


def count(messages: DataFrame) -> DataFrame:
    """The count of each value, as text: ``value n``."""
    counted = messages.groupBy(F.col("value").cast("string").alias("word")).count()
    return counted.select(F.concat_ws(" ", "word", F.col("count").cast("string")).alias("value"))


def windowed(messages: DataFrame) -> DataFrame:
    """The same within windows that are longer than any test."""
    window = F.window("timestamp", "40000 days").alias("window")
    counted = messages.groupBy(window, F.col("value").cast("string").alias("word")).count()
    return counted.select(F.concat_ws(" ", "word", F.col("count").cast("string")).alias("value"))


def reverse(messages: DataFrame) -> DataFrame:
    """Each message backwards, by a Python function that runs on the server."""
    return messages.select(F.udf(_backwards, "string")(F.col("value").cast("string")).alias("value"))


def _backwards(text: str) -> str:
    return text[::-1]


def read_in_python(messages: DataFrame) -> DataFrame:
    """Each message as it is, by a slow Python function that fails on a poisonous one."""
    return messages.select(F.udf(_read, "string")(F.col("value").cast("string")).alias("value"))


def _read(text: str) -> str:
    time.sleep(0.01)
    if text.startswith("poison"):
        raise ValueError(f"no such street: {text}")
    return text


def numbered(messages: DataFrame) -> DataFrame:
    """Each message as it is, if its text from the second character on is a number; fails on others."""
    text = F.col("value").cast("string")
    return messages.where(F.substring(text, 2, 20).cast("int") >= 0).select(text.alias("value"))


def enlarged(messages: DataFrame) -> DataFrame:
    """Each message as it is, except for the one named ``large``, which becomes 90 KB long."""
    text = F.col("value").cast("string")
    return messages.select(
        F.when(text == "large", F.repeat(F.lit("x"), 90_000)).otherwise(text).alias("value")
    )


def fails_at_build(messages: DataFrame) -> DataFrame:
    """Raises before there is a DataFrame."""
    print("this goes to the log, and not between the launcher and its child")
    raise ValueError("no such street")


def fails_in_analysis(messages: DataFrame) -> DataFrame:
    """Asks for a column that is not there."""
    return messages.select(F.col("nothing").alias("value"))


def fails_at_run(messages: DataFrame) -> DataFrame:
    """Raises on the server, for the first message."""
    return messages.select(F.udf(_fail, "string")(F.col("value").cast("string")).alias("value"))


def _fail(text: str) -> str:
    raise RuntimeError(f"no such street: {text[:3]}")


def no_value(messages: DataFrame) -> DataFrame:
    """Has no column of the right name."""
    return messages.select(F.col("value").alias("text"))


def not_streaming(messages: DataFrame) -> DataFrame:
    """Does not come from the messages."""
    return messages.sparkSession.createDataFrame([("a",)], "value string")


def nothing(messages: DataFrame) -> None:
    """Gives nothing at all."""


def never_ends(messages: DataFrame) -> DataFrame:
    """Takes longer than anybody waits."""
    while True:
        time.sleep(1)


def exits(messages: DataFrame) -> DataFrame:
    """Ends the process that runs it, without a message."""
    import os

    os._exit(3)


not_callable = 7


def total(messages: DataFrame) -> DataFrame:
    """All counts at every batch: the output mode is asked for."""
    return count(messages)


total.output_mode = "complete"  # type: ignore[attr-defined]


def count_to_append(messages: DataFrame) -> DataFrame:
    """Asks for final results of an aggregation that has none."""
    return count(messages)


count_to_append.output_mode = "append"  # type: ignore[attr-defined]


def bad_mode(messages: DataFrame) -> DataFrame:
    """Asks for an output mode that does not exist."""
    return count(messages)


bad_mode.output_mode = "sometimes"  # type: ignore[attr-defined]


def environment(messages: DataFrame, name: str) -> DataFrame:
    """Tells a variable of the environment in which the job's code is called."""
    import os

    raise ValueError(f"{name} is {os.environ.get(name, 'not there')}")


def active_session(messages: DataFrame) -> DataFrame:
    """Uses the session in the usual ways, for a table beside the messages."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    assert session is not None
    assert SparkSession.builder.getOrCreate() is session
    streets = session.createDataFrame([("a", "Aarhus")], "code string, city string")
    joined = messages.join(streets, F.col("value") == F.col("code"))
    return joined.select(F.col("city").alias("value"))


def twice(messages: DataFrame) -> DataFrame:
    """Each message as it is and backwards, by a union of the messages with themselves."""
    plain = messages.select(F.col("value").cast("string").alias("value"))
    return plain.union(messages.select(F.reverse(F.col("value").cast("string")).alias("value")))


def burning(messages: DataFrame, micros: int = 500) -> DataFrame:
    """Takes processor time for each message, and adds the time that this took by the clock (µs)."""

    def burn(text: str) -> str:
        begin, end = time.perf_counter(), time.thread_time() + micros / 1e6
        while time.thread_time() < end:
            pass
        return f"{text} {(time.perf_counter() - begin) * 1e6:.0f}"

    return messages.select(F.udf(burn, "string")(F.col("value").cast("string")).alias("value"))
