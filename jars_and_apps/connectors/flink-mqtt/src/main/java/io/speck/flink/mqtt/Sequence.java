package io.speck.flink.mqtt;

import java.io.Serializable;

/**
 * The number of a message in what its sink's subtask writes, for a program that knows it better than a count of the
 * messages: one that sends by the clock, and not the same messages again after a failure.
 *
 * <p>Readers drop a message whose number is not above that of an earlier one. So the numbers must grow from message to
 * message, and a message that is left out when the program repeats its work must be one that nobody misses.
 */
@FunctionalInterface
public interface Sequence<T> extends Serializable {
    long of(T element);
}
