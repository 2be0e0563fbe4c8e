/**
 * The data source {@code mqtt} of Spark Structured Streaming. A query's checkpoint holds the offsets of the source as
 * JSON and its batch records as files, without names of classes.
 */
package io.speck.spark.mqtt;
