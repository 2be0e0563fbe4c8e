package io.speck.connector.reader;

import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.stamp.SeenStamps;
import java.util.Collection;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Detects messages that repeat an earlier one: by their stamps, of the writers that the coordinator named.
 *
 * <p>Guarded by the reader's lock, but for {@link #writers}, {@link #lookUp} and {@link #named}.
 */
public final class Repetitions {
    private final SourceSettings settings;
    private final StampCounts counts;
    /** Of all lists so far, by the hashes that stand for them: what a writer that was removed has sent may come yet. */
    private final Map<Integer, String> names = new ConcurrentHashMap<>();
    private volatile KnownWriters writers = KnownWriters.all();
    /** The writers behind the last message that left the buffer: lists among those that are in it came later. */
    private KnownWriters settled = writers;
    private boolean lookedUp;

    public Repetitions(SourceSettings settings) {
        this.settings = settings;
        this.counts = new StampCounts(settings);
    }

    public StampCounts counts() {
        return counts;
    }

    public KnownWriters writers() {
        return writers;
    }

    public void restore(KnownWriters recorded) {
        take(recorded);
        settled = recorded;
    }

    private void take(KnownWriters list) {
        list.enter(names);
        writers = list;
    }

    /** True if the names that a list has resolve stamps in their binary form. */
    public boolean resolvesNames() {
        return writers.resolves();
    }

    /** Returns the name of the job with a hash; null if no list has one, or if two names share the hash. */
    public String named(int hash) {
        String name = names.get(hash);
        return name == null || name.isEmpty() ? null : name;
    }

    /**
     * Reads the list of the writers from the broker, with the first connection. It counts beside the one that was recorded:
     * a writer that is in the recorded one alone may have written messages that wait, before a list without it.
     */
    public void lookUp(KnownWriters.Lookup lookup) throws InterruptedException {
        if (!lookedUp) {
            take(writers.lookedUp(lookup, settings).and(writers));
            settled = writers;
            lookedUp = true;
        }
    }

    /** Takes the writers from a message of the coordinator, if it is their list. */
    public void update(Message message) {
        if (isList(message)) {
            replace(message.marker);
        }
    }

    private boolean isList(Message message) {
        return message.marker != null && message.topic.equals(KnownWriters.topic(settings));
    }

    /** Notes that messages, in their order, are processed and leave the buffer. */
    public void settle(Collection<Message> messages) {
        settled = behind(settled, messages);
    }

    private KnownWriters behind(KnownWriters earlier, Collection<Message> messages) {
        KnownWriters found = earlier;
        for (Message each : messages) {
            found = isList(each) ? found.updated(each.marker, settings) : found;
        }
        return found;
    }

    /** Returns the writers to record with messages, in their order, of which none has left the buffer. */
    public KnownWriters writersBehind(Collection<Message> messages) {
        return behind(settled, messages);
    }

    /** Takes the writers from a list of the coordinator. */
    public void replace(byte[] list) {
        take(writers.updated(list, settings));
    }

    /**
     * Takes the writers from a list of the coordinator, beside those before: of a list that has no place among the
     * messages, one without a writer may come before the last messages of that writer.
     */
    public void extend(byte[] list) {
        take(writers.updated(list, settings).and(writers));
    }

    /** True if the message is to be dropped; counts it, and takes a stamp from it that is not believed. */
    public boolean drops(Message message, ReceiveBuffer buffer) {
        if (message.stamp != null && !writers.believes(message.stamp)) {
            message.disbelieve();
        }
        if (message.badStamp || !message.believed) {
            counts.addBad();
        }
        if (message.stamp == null) {
            return false;
        }
        SeenStamps.Verdict verdict = buffer.see(message);
        boolean dropped = counts.drops(message.stamp, verdict);
        message.collides = !dropped && verdict == SeenStamps.Verdict.COLLISION;
        return dropped;
    }
}
