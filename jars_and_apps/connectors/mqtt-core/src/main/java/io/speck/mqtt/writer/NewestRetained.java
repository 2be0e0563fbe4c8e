package io.speck.mqtt.writer;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The newest message of each topic that the broker is to retain. An older one that is sent again would replace it at the
 * broker, where it would stay until the next result; so it is sent again without the flag. Nor is one retained anew that
 * is sent again for a lost session alone: meanwhile another process may have written a newer one.
 *
 * <p>Of at most {@link #MOST} topics; of those that were written longest ago, no message is retained anew when it is sent
 * again. Not thread-safe; guarded by the publisher's lock.
 */
final class NewestRetained {
    private static final int MOST = 100_000;

    private final Map<String, Long> newest = new LinkedHashMap<>(16, 0.75f, true);
    private long last;

    /** Adds a message that is queued for the first time. */
    void add(OutgoingMessage message) {
        message.retainNumber = ++last;
        newest.put(message.topic, last);
        if (newest.size() > MOST) {
            newest.remove(newest.keySet().iterator().next());
        }
    }

    /**
     * Adds messages that another process left, in their order. What this process has written to the same topic counts as
     * newer: a job that starts again often does so before its former process has ended.
     */
    void takeOver(List<OutgoingMessage> messages) {
        Set<String> written = Set.copyOf(newest.keySet());
        messages.stream().filter(message -> message.retainNumber != 0 && !written.contains(message.topic))
                .forEach(this::add);
    }

    /** True if the broker is to retain a message that is about to be sent, perhaps again. */
    boolean retains(OutgoingMessage message) {
        if (message.retainNumber == 0 || message.forSession) {
            return false;
        }
        Long number = newest.get(message.topic);
        return message.sentNanos == 0 || number != null && number == message.retainNumber;
    }
}
