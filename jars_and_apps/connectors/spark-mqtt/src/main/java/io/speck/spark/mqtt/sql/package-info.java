/** The functions of SQL jobs on Spark, which queries register by their class names; see {@code io.speck.sql}. */
package io.speck.spark.mqtt.sql;
