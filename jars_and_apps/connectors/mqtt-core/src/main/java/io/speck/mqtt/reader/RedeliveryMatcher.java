package io.speck.mqtt.reader;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Recognises what a broker sends again at the beginning of a connection.
 *
 * <p>A broker resends all that it holds as unacknowledged, in the old order and with the old packet ids (MQTT 5, 4.4
 * and 4.6). Since we acknowledge in order, that is: the end of what we acknowledged (those acknowledgements were lost
 * on the way), then what is in hand, then what we never saw. Packet ids may be used again once they were acknowledged,
 * and contents may be equal, so a message counts as one of the acknowledged only when the DUP flag is set and an
 * unbroken row of (packet id, content hash) leads from it to the last one acknowledged. The id of a message in hand
 * cannot be in use for another one.
 */
final class RedeliveryMatcher {
    /** What becomes of each message that came. */
    interface Outcome {
        /** These, acknowledged before, came: to be acknowledged once more, and not given out. */
        void repeatedAcknowledged(List<Message> known);

        /** One in hand, or awaited by its record, came: its acknowledgement is valid from now on. */
        void repeatedInHand(Message known, Message incoming);

        void fresh(Message incoming);
    }

    private final List<Message> acknowledged;
    private final Map<Integer, Message> inHand = new HashMap<>();
    private final List<Message> row = new ArrayList<>();
    private int next;
    private boolean leading;
    private boolean settled;
    private boolean over;

    /**
     * @param acknowledged those whose acknowledgement may not have arrived, in order
     * @param inHand those not acknowledged yet
     */
    RedeliveryMatcher(Collection<Message> acknowledged, Collection<Message> inHand) {
        this.acknowledged = new ArrayList<>(acknowledged);
        this.leading = !acknowledged.isEmpty();
        for (Message message : inHand) {
            if (message.packetId != 0) {
                this.inHand.put(message.packetId, message);
            }
        }
        this.over = !leading && this.inHand.isEmpty();
    }

    /** Whether the broker has sent again all that it will of what we knew. */
    boolean over() {
        return over;
    }

    /** Whether the broker is still before, or among, what was acknowledged. */
    boolean leading() {
        return leading;
    }

    /** Whether messages are held back until it is clear what they are. */
    boolean undecided() {
        return !row.isEmpty();
    }

    void offer(Message incoming, boolean dup, Outcome outcome) {
        if (leading && dup && continues(incoming)) {
            row.add(incoming);
            if (settled || next == acknowledged.size()) {
                settle(outcome);
            }
            return;
        }
        endRow(outcome);
        compareInHand(incoming, dup, outcome);
    }

    /** Takes the row for what it seems to be, when the broker sends no more for the time being. */
    void settle(Outcome outcome) {
        settled = true;
        outcome.repeatedAcknowledged(acknowledged.subList(next - row.size(), next));
        row.clear();
        leading = next < acknowledged.size();
        over = !leading && inHand.isEmpty();
    }

    private boolean continues(Message incoming) {
        if (row.isEmpty() && !settled) {
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

    private void endRow(Outcome outcome) {
        leading = false;
        List<Message> broken = new ArrayList<>(row);
        row.clear();
        broken.forEach(message -> compareInHand(message, true, outcome));
    }

    /** One that comes without DUP, and is not in hand, shows that the broker has repeated all; DUP may come late. */
    private void compareInHand(Message incoming, boolean dup, Outcome outcome) {
        Message known = over && !dup ? null : inHand.get(incoming.packetId);
        if (known != null && known.same(incoming)) {
            inHand.remove(incoming.packetId);
            over |= inHand.isEmpty();
            outcome.repeatedInHand(known, incoming);
            return;
        }
        over |= !dup || inHand.isEmpty();
        outcome.fresh(incoming);
    }
}
