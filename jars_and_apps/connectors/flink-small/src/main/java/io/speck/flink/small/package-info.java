/** A Flink session cluster in one process, for machines with little memory. */
package io.speck.flink.small;
