package io.speck.mqtt.failure;

import java.util.ArrayList;
import java.util.List;

/**
 * Messages that failed by an error which a service that is away may raise as well ({@link Cause#CODE}): they are left
 * out only once another message has passed after them. When many fail and none passes, the messages are not the cause.
 *
 * @param <M> type of the messages
 */
public final class Suspects<M> {
    private static final int MOST = 20;

    private List<M> held = new ArrayList<>();

    /** Holds a message; false if too many have failed and none has passed, so that the job should fail. */
    public boolean add(M message) {
        held.add(message);
        return held.size() <= MOST;
    }

    /** A message has passed; returns those that failed before it, which are therefore the cause. */
    public List<M> passed() {
        return taken();
    }

    /**
     * The work so far is to be committed. Returns the messages to leave out: a single one, though nothing has come after
     * it yet.
     *
     * @throws IllegalStateException if several have failed and none has passed
     */
    public List<M> committing() {
        if (held.size() > 1) {
            throw new IllegalStateException("the code failed on " + held.size() + " messages in a row and none has passed"
                    + " since: they are not left out, as a service that the code needs may be away");
        }
        return taken();
    }

    private List<M> taken() {
        if (held.isEmpty()) {
            return List.of();
        }
        List<M> taken = held;
        held = new ArrayList<>();
        return taken;
    }
}
