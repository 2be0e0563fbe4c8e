package io.speck.mqtt.reader;

import io.speck.connector.reader.Message;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Recognises the messages that a broker redelivers at the beginning of a connection.
 *
 * <p>A broker redelivers all messages that it holds as unacknowledged, in the old order and with the old packet ids
 * (MQTT 5, 4.4 and 4.6). Since the reader acknowledges in order, these are: the last ones that it acknowledged, if
 * their acknowledgements were lost on the way, then its unacknowledged ones, then ones that it never received. Packet
 * ids may be used again once they were acknowledged, and contents may be equal, so a message counts as an acknowledged
 * one only if the DUP flag is set and an unbroken run of (packet id, content hash) leads from it to the last one
 * acknowledged. The packet id of an unacknowledged message cannot be in use for another one.
 */
final class RedeliveryMatcher {
    /** Receives the verdict on each message. */
    interface Outcome {
        /**
         * Messages acknowledged before were redelivered: they need another acknowledgement, and are not returned again.
         */
        void redeliveredAcknowledged(List<Message> known);

        /** An unacknowledged or awaited message was redelivered: its acknowledgement is valid from now on. */
        void redeliveredUnacknowledged(Message known, Message incoming);

        void newMessage(Message incoming);
    }

    private final List<Message> acknowledged;
    private final Map<Integer, Message> unacknowledged = new HashMap<>();
    private final List<Message> run = new ArrayList<>();
    private int next;
    private boolean amongAcknowledged;
    private boolean resolved;
    private boolean over;

    /**
     * @param acknowledged messages whose acknowledgement may not have arrived, in order
     * @param unacknowledged messages that are not acknowledged yet
     */
    RedeliveryMatcher(Collection<Message> acknowledged, Collection<Message> unacknowledged) {
        this.acknowledged = new ArrayList<>(acknowledged);
        this.amongAcknowledged = !acknowledged.isEmpty();
        for (Message message : unacknowledged) {
            if (message.packetId != 0) {
                this.unacknowledged.put(message.packetId, message);
            }
        }
        this.over = !amongAcknowledged && this.unacknowledged.isEmpty();
    }

    /** True once the broker has redelivered all known messages that it holds. */
    boolean over() {
        return over;
    }

    /** True while the broker may still redeliver acknowledged messages. */
    boolean amongAcknowledged() {
        return amongAcknowledged;
    }

    /** True while messages are held back until their run is decided. */
    boolean holdsBack() {
        return !run.isEmpty();
    }

    void offer(Message incoming, boolean dup, Outcome outcome) {
        if (amongAcknowledged && dup && continuesRun(incoming)) {
            run.add(incoming);
            if (resolved || next == acknowledged.size()) {
                resolve(outcome);
            }
            return;
        }
        breakRun(outcome);
        matchUnacknowledged(incoming, dup, outcome);
    }

    /** Decides that the run consists of acknowledged messages, when the broker sends no more for the time being. */
    void resolve(Outcome outcome) {
        resolved = true;
        outcome.redeliveredAcknowledged(acknowledged.subList(next - run.size(), next));
        run.clear();
        amongAcknowledged = next < acknowledged.size();
        over = !amongAcknowledged && unacknowledged.isEmpty();
    }

    private boolean continuesRun(Message incoming) {
        if (run.isEmpty() && !resolved) {
            next = lastIndexOf(incoming);
        }
        if (next < 0 || !acknowledged.get(next).same(incoming)) {
            return false;
        }
        next++;
        return true;
    }

    private int lastIndexOf(Message incoming) {
        for (int i = acknowledged.size() - 1; i >= 0; i--) {
            if (acknowledged.get(i).same(incoming)) {
                return i;
            }
        }
        return -1;
    }

    private void breakRun(Outcome outcome) {
        amongAcknowledged = false;
        List<Message> broken = new ArrayList<>(run);
        run.clear();
        broken.forEach(message -> matchUnacknowledged(message, true, outcome));
    }

    /** A message without DUP that is not an unacknowledged one shows that redelivery is over; DUP may come late. */
    private void matchUnacknowledged(Message incoming, boolean dup, Outcome outcome) {
        Message known = over && !dup ? null : unacknowledged.get(incoming.packetId);
        if (known != null && known.same(incoming)) {
            unacknowledged.remove(incoming.packetId);
            over |= unacknowledged.isEmpty();
            outcome.redeliveredUnacknowledged(known, incoming);
            return;
        }
        over |= !dup || unacknowledged.isEmpty();
        outcome.newMessage(incoming);
    }
}
