package io.speck.mqtt.writer;

import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.Login;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ConnectionListener;
import io.speck.mqtt.net.Session;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

/**
 * Finds the publishers that wrote to a broker although they used another address, or another user: the broker has their
 * {@link DeliveryMark marks}. A broker with a bridge may have those of another one, and proves nothing.
 */
final class MarkSearch implements ConnectionListener {
    private static final Duration TRY = Duration.ofSeconds(10);

    /** By the ids of publishers. */
    private final Map<String, DeliveryMark> marks = new LinkedHashMap<>();
    private volatile boolean bridged;

    private MarkSearch(Collection<String> ids) {
        ids.forEach(id -> marks.put(id, new DeliveryMark(id, 0)));
    }

    /**
     * Returns those of the ids of publishers whose marks the broker of a login has.
     *
     * @throws BrokerException if it cannot be reached, or refuses to show marks
     */
    static Set<String> marked(Login login, Collection<String> ids) throws InterruptedException {
        String clientId = "speck-marks-" + UUID.randomUUID().toString().replace("-", "").substring(0, 16);
        MarkSearch search = new MarkSearch(ids);
        Connection opened = Connection.open(login, Session.temporary(clientId), search, TRY);
        try {
            opened.subscribe(search.filters(), TRY);
            return DeliveryMark.awaitRetained(opened, TRY) ? search.found() : Set.of();
        } finally {
            opened.close();
        }
    }

    private List<String> filters() {
        List<String> filters = new ArrayList<>(marks.values().stream().map(DeliveryMark::topic).toList());
        filters.add(BrokerLife.BRIDGES + "+/state"); // not the first: a broker may refuse all others
        return filters;
    }

    @Override
    public void published(Connection from, MqttPublishMessage packet) {
        from.acknowledge(packet);
        bridged |= packet.variableHeader().topicName().startsWith(BrokerLife.BRIDGES);
        marks.values().forEach(mark -> mark.accept(packet));
    }

    private Set<String> found() throws InterruptedException {
        long deadline = DeliveryMark.deadline();
        Set<String> found = new HashSet<>();
        for (Map.Entry<String, DeliveryMark> each : marks.entrySet()) {
            if (each.getValue().isFound(deadline)) {
                found.add(each.getKey());
            }
        }
        return bridged ? Set.of() : found;
    }
}
