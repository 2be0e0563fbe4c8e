package io.speck.mqtt.writer;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** A publisher of an earlier process, and the messages that it left on disk. Guarded by the publisher's lock. */
final class Predecessor {
    private final SpoolFolder folder;
    private final DeliveryMark mark;
    /** The messages with the numbers that the mark counts by, in order. */
    private final Map<OutgoingMessage, Long> numbers;
    private final List<OutgoingMessage> messages;
    private final List<String> requests = new ArrayList<>();
    private long delivered;

    private Predecessor(SpoolFolder folder, DeliveryMark mark, List<OutgoingMessage> messages) {
        this.folder = folder;
        this.mark = mark;
        this.messages = messages;
        this.numbers = new HashMap<>();
        messages.forEach(message -> numbers.put(message, message.deliveryNumber));
    }

    static Predecessor read(SpoolFolder folder, int markExpirySeconds) {
        return new Predecessor(folder, new DeliveryMark(folder.id(), markExpirySeconds), folder.read(new Delivery()));
    }

    SpoolFolder folder() {
        return folder;
    }

    DeliveryMark mark() {
        return mark;
    }

    List<OutgoingMessage> messages() {
        return messages;
    }

    /** Records the number up to which the broker has the messages. */
    void delivered(long number) {
        delivered = number;
    }

    /** Records that a session which reads this filter was lost. */
    void requested(String filter) {
        requests.add(filter);
    }

    /** True if the broker may have lost a message. */
    boolean isLost(OutgoingMessage message) {
        return numbers.get(message) > delivered;
    }

    /** True if a session that was lost reads a message. */
    boolean isRequested(OutgoingMessage message) {
        return requests.stream().anyMatch(filter -> TopicFilter.matches(filter, message.topic));
    }
}
