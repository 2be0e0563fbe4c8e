/**
 * The MQTT source and sink of Flink, and the frame of a program that SpecK runs. The source's split and the sink's
 * lineage are the state in checkpoints; both have versioned forms of their own, without names of classes.
 */
package io.speck.flink.mqtt;
