package io.speck.mqtt;

import io.speck.connector.reader.BatchJournal;
import io.speck.connector.reader.Message;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ConnectionListener;
import io.speck.mqtt.net.ReasonCodes;
import io.speck.mqtt.net.Session;
import io.speck.mqtt.reader.MqttSource;
import io.speck.mqtt.writer.MqttSink;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** Writes to a topic, and reads from one, on behalf of a test. */
public final class Topic implements AutoCloseable {
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final MqttSource source;

    /** Collects the messages of the topic from now on; those that repeat a stamp are dropped. */
    public Topic(String url, String topic) throws Exception {
        source = source(url, "collector-" + topic, topic);
    }

    private static MqttSource source(String url, String clientId, String topic) throws Exception {
        MqttSource opened = new MqttSource(new SourceSettings(Login.anonymous(url), clientId, topic, 65535, 256L << 20,
                null, -1, true, PATIENCE), new Nowhere());
        opened.open(0, 0);
        return opened;
    }

    /** Creates a session ahead of its reader, as a coordinator would, so that it gets all messages from now on. */
    public static void session(String url, String clientId, String topic) throws Exception {
        source(url, clientId, topic).close();
    }

    /** Empties a session; returns the messages that the broker held for it. */
    public static List<String> drain(String url, String clientId, String topic) throws Exception {
        return drainBytes(url, clientId, topic).stream().map(each -> new String(each, StandardCharsets.UTF_8)).toList();
    }

    /** The same, as they came. */
    public static List<byte[]> drainBytes(String url, String clientId, String topic) throws Exception {
        String marker = "marker " + System.nanoTime();
        publish(url, topic, List.of(marker));
        try (MqttSource source = source(url, clientId, topic)) {
            List<String> seen = List.of();
            long count = 0;
            while (!seen.contains(marker)) {
                count = Math.max(count + 1, source.await(count + 1, TimeUnit.SECONDS.toNanos(1)));
                seen = texts(source.messages(0, count));
            }
            List<byte[]> all = source.messages(0, count).stream().limit(seen.indexOf(marker)).map(Message::payload).toList();
            source.commit(count);
            return all;
        }
    }

    public List<String> take(int count) {
        Await.until(count + " messages (of " + source.metrics().received() + ")",
                () -> source.await(count, TimeUnit.SECONDS.toNanos(1)) >= count);
        return texts(source.messages(0, count));
    }

    public List<String> all() {
        return texts(source.messages(0, Long.MAX_VALUE));
    }

    /** Returns the contents of messages. */
    public static List<String> texts(List<Message> messages) {
        return messages.stream().map(each -> new String(each.payload(), StandardCharsets.UTF_8)).toList();
    }

    /** Returns the contents of the first messages, in hexadecimal. */
    public List<String> takeHex(int count) {
        take(count);
        return source.messages(0, count).stream().map(each -> HexFormat.of().formatHex(each.payload())).toList();
    }

    public static void publish(String url, String topic, Iterable<String> payloads) throws InterruptedException {
        List<byte[]> encoded = new ArrayList<>();
        payloads.forEach(each -> encoded.add(bytes(each)));
        publishAll(url, topic, encoded);
    }

    /** Publishes contents that are written in hexadecimal. */
    public static void publishHex(String url, String topic, List<String> payloads) throws InterruptedException {
        publishAll(url, topic, payloads.stream().map(HexFormat.of()::parseHex).toList());
    }

    private static void publishAll(String url, String topic, List<byte[]> payloads) throws InterruptedException {
        try (MqttSink sink = new MqttSink(new SinkSettings(Login.anonymous(url), PATIENCE))) {
            for (byte[] payload : payloads) {
                sink.send(topic, payload, null, null, null);
            }
            sink.flush();
        }
    }

    public static void publish(String url, String topic, String key, String payload) throws InterruptedException {
        publish(url, topic, key, null, null, payload);
    }

    /** Publishes a message with the properties of a stamp, whatever texts they are. */
    public static void publishStamped(String url, String topic, String job, String sequence, String payload)
            throws InterruptedException {
        publish(url, topic, null, job, sequence, payload);
    }

    /** Publishes a message with these properties; null for none. */
    public static void publish(String url, String topic, String key, String job, String sequence, String payload)
            throws InterruptedException {
        try (MqttSink sink = new MqttSink(new SinkSettings(Login.anonymous(url), PATIENCE))) {
            sink.send(topic, bytes(payload), bytes(key), bytes(job), bytes(sequence));
            sink.flush();
        }
    }

    private static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    /** Publishes a retained message. */
    public static void retain(String url, String topic, String payload) throws Exception {
        CompletableFuture<Integer> answer = new CompletableFuture<>();
        ConnectionListener listener = new ConnectionListener() {
            @Override
            public void acknowledged(Connection connection, int packetId, int reason) {
                answer.complete(reason);
            }
        };
        Connection connection = Connection.open(Login.anonymous(url), Session.temporary("retainer"), listener, PATIENCE);
        connection.retain(topic, payload, 0, 1);
        int reason = answer.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
        connection.closeAndEndSession();
        if (reason >= 0x80) {
            throw new AssertionError(ReasonCodes.text(reason));
        }
    }

    /** Makes the broker lose a session. */
    public static void forget(String url, String clientId) throws InterruptedException {
        Session session = Session.temporary(clientId);
        Connection.open(Login.anonymous(url), session, new ConnectionListener() {}, PATIENCE).closeAndEndSession();
    }

    @Override
    public void close() {
        source.close();
    }

    private static final class Nowhere implements BatchJournal {
        @Override
        public SortedMap<Long, byte[]> read() {
            return new TreeMap<>();
        }

        @Override
        public void write(long start, byte[] record) {}

        @Override
        public void delete(long start) {}
    }
}
