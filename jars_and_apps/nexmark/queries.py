"""The queries q1, q2 and q7 of Nexmark, as functions from DataFrame to DataFrame.

Each takes ``topic STRING, value STRING, timestamp TIMESTAMP`` and returns a ``value STRING``.  Values are
the lines of the Flink programs beside it (``Line.java``): a bid is ``B,time,auction,bidder,price,extra``,
the time in milliseconds since 1970, the price in cents.  All other lines are dropped.

``q7`` runs at each site, and again on the highest bids of all sites.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BID = r"^B,[0-9]{1,18},[0-9]{1,18},[0-9]{1,18},[0-9]{1,15},[^,]*(?![\s\S])"
WINDOW = "10 seconds"
EQUAL = 100  # bids of one window that may share the highest price


def q1(messages: DataFrame) -> DataFrame:
    """The bids with their price in euros, 0.908 of a dollar, exact to three decimals."""
    from pyspark.sql import functions as sf

    euros = sf.col("price").cast("decimal(18)") * sf.lit("0.908").cast("decimal(3, 3)")
    return _row(_bids(messages).withColumn("euros", euros), "auction", "bidder", "euros", "extra")


def q2(messages: DataFrame) -> DataFrame:
    """Auction and price of the bids for every 123rd auction."""
    return _row(_bids(messages).where("auction % 123 = 0"), "auction", "price")


def q7(messages: DataFrame, lateness: str = "0 seconds") -> DataFrame:
    """The bids of the highest price in each 10 s: all with that price, up to a hundred.

    They are written once a bid is newer than the end of the window by ``lateness``; later ones are dropped.
    """
    from pyspark.sql import functions as sf

    bids = _bids(messages).withColumn("at", sf.timestamp_millis("time")).withWatermark("at", lateness)
    best = bids.groupBy(sf.window("at", WINDOW)).agg(
        sf.max("price").alias("highest"),
        sf.max_by(sf.struct("price", "value"), "price", EQUAL).alias("best"),
    )
    chosen = sf.filter("best", lambda bid: bid["price"] == sf.col("highest"))
    return best.select(sf.explode(chosen).alias("bid")).select("bid.value")


def _bids(messages: DataFrame) -> DataFrame:
    """``value STRING, time, auction, bidder, price BIGINT, extra STRING``."""
    from pyspark.sql import functions as sf

    fields = sf.split("value", ",")
    numbers = [
        fields[place].cast("bigint").alias(name)
        for place, name in enumerate(("time", "auction", "bidder", "price"), start=1)
    ]
    return messages.where(messages["value"].rlike(BID)).select("value", *numbers, fields[5].alias("extra"))


def _row(bids: DataFrame, *columns: str) -> DataFrame:
    from pyspark.sql import functions as sf

    return bids.select(sf.concat_ws(",", sf.lit("R"), "time", *columns).alias("value"))
