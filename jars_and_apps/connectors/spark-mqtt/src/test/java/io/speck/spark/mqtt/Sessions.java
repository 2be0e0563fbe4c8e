package io.speck.spark.mqtt;

import org.apache.spark.sql.SparkSession;

/** Starts a local Spark with few resources. */
final class Sessions {
    private Sessions() {}

    static SparkSession local() {
        return SparkSession.builder()
                .master("local[2]")
                .config("spark.ui.enabled", "false")
                .config("spark.driver.host", "127.0.0.1")
                .config("spark.driver.bindAddress", "127.0.0.1")
                .config("spark.sql.shuffle.partitions", "1")
                .config("spark.sql.streaming.checkpointFileManagerClass", CheckpointFileManager.class.getName())
                .getOrCreate();
    }
}
