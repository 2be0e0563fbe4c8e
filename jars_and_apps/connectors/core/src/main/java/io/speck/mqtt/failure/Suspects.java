package io.speck.mqtt.failure;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;

/**
 * Messages that failed by an error which a service that is away may raise as well ({@link Cause#CODE}): they are left
 * out only if they fail after another message has passed. When many fail and none passes, the messages are not the cause.
 *
 * @param <M> type of the messages
 */
public final class Suspects<M> {
    private static final int MOST = 20;

    private final Deque<M> held = new ArrayDeque<>();

    /** Holds a message; false if too many have failed and none has passed, so that the job should fail. */
    public boolean add(M message) {
        held.add(message);
        return held.size() <= MOST;
    }

    public boolean isEmpty() {
        return held.isEmpty();
    }

    /** The one that failed first, to be tried again. */
    public M first() {
        return held.getFirst();
    }

    public M removeFirst() {
        return held.removeFirst();
    }

    /**
     * All messages so far are to be committed. Returns those to leave out: a single one, though nothing has come after it
     * yet.
     *
     * @throws IllegalStateException if several have failed and none has passed
     */
    public List<M> committing() {
        if (held.size() > 1) {
            throw new IllegalStateException("the code failed on " + held.size() + " messages in a row and none has passed"
                    + " since: they are not left out, as a service that the code needs may be away");
        }
        List<M> single = List.copyOf(held);
        held.clear();
        return single;
    }
}
