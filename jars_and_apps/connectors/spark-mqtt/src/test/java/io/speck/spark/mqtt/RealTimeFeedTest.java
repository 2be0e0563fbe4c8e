package io.speck.spark.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.speck.connector.MessageSource;
import io.speck.mqtt.Received;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The ends of batches without an end of their own. */
class RealTimeFeedTest {
    private final Deque<Received> waiting = new ArrayDeque<>();
    private final RealTimeFeed feed = new RealTimeFeed("query", source(), Long.MAX_VALUE, 1, null);

    /** A source with these messages, of which a commit is due. */
    private MessageSource source() {
        return (MessageSource) Proxy.newProxyInstance(MessageSource.class.getClassLoader(),
                new Class<?>[] {MessageSource.class}, (proxy, method, arguments) -> switch (method.getName()) {
                    case "take" -> waiting.isEmpty() ? List.of() : List.of(waiting.poll());
                    case "commitIsDue" -> true;
                    default -> throw new UnsupportedOperationException(method.getName());
                });
    }

    private void arrives(long offset) {
        waiting.add(new Received("in", "text".getBytes(StandardCharsets.UTF_8), null, 0, null, offset, 0));
    }

    private void endFirst() throws Exception {
        feed.begin(0);
        assertNull(feed.next(1000)); // ends with the first pause
    }

    @Test
    void aCommitIsDueOnlyOnceTheBatchBeforeIsAcknowledged() throws Exception {
        endFirst();
        feed.begin(0);
        arrives(0);
        arrives(1);
        assertEquals(0, feed.next(1000).offset());
        feed.acknowledged();
        assertNull(feed.next(1000));
        assertEquals(1, feed.end());
    }
}
