package io.speck.flink.mqtt;

import java.io.Serializable;
import org.apache.flink.util.function.SerializableFunction;

/**
 * The conversion of elements to messages.
 *
 * @param value its content
 * @param topic its topic
 * @param key the user property {@code key}; null for messages without one
 * @param sequence its number in the stamps; null to count
 */
record SinkFormat<T>(SerializableFunction<T, byte[]> value, SerializableFunction<T, String> topic,
        SerializableFunction<T, String> key, Sequence<T> sequence) implements Serializable {}
