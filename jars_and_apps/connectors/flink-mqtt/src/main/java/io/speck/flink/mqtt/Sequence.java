package io.speck.flink.mqtt;

import java.io.Serializable;

/**
 * The number of a message within its sink's subtask, for a program in which a count of the messages does not identify
 * them: one that sends by the clock, and does not send the same messages again after a failure.
 *
 * <p>Readers drop a message whose number is not above that of an earlier one. The numbers, 0 or above, must therefore
 * increase from message to message, and a message that a repetition of the work omits must be dispensable.
 */
@FunctionalInterface
public interface Sequence<T> extends Serializable {
    long of(T element);
}
