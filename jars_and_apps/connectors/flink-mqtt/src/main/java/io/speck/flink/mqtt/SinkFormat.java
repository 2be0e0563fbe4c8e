package io.speck.flink.mqtt;

import java.io.Serializable;
import org.apache.flink.util.function.SerializableFunction;

/**
 * How an element becomes a message.
 *
 * @param value its content
 * @param topic where it goes
 * @param key the user property {@code key}; null for messages without one
 * @param sequence its number in the stamps; null to count
 */
record SinkFormat<T>(SerializableFunction<T, byte[]> value, SerializableFunction<T, String> topic,
        SerializableFunction<T, String> key, Sequence<T> sequence) implements Serializable {}
