"""Key splitting on Spark: the queries of a split's parts (:mod:`speck.core.split`)."""
