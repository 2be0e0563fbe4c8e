package io.speck.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.connector.writer.SinkMetrics;
import io.speck.mqtt.reader.MqttSource;
import io.speck.mqtt.stamp.Stamp;
import io.speck.mqtt.writer.MqttSink;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Writes more than a session can hold, to the Mosquitto that SpecK ships the configuration of. */
@Timeout(value = 90, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class BackPressureTest {
    private static final String LIMIT = "speck.sink.brokerMegabytes";
    private static final String DROPPED = "$SYS/broker/publish/messages/dropped";
    private static final Duration PATIENCE = Duration.ofSeconds(5);

    @TempDir
    Path folder;
    private Mosquitto broker;
    private final ExecutorService writers = Executors.newCachedThreadPool();
    private final List<MqttSource> opened = new ArrayList<>();

    @AfterEach
    void stop() {
        writers.shutdownNow();
        opened.forEach(MqttSource::close);
        System.clearProperty(LIMIT);
        broker.close();
    }

    /** A broker that keeps 3 MB for each session, whose writers wait when it stores 1 MB. */
    private void startSmall(String... more) throws IOException {
        List<String> settings = new ArrayList<>(List.of(more));
        settings.add("max_queued_bytes 3000000");
        broker = Mosquitto.shipped(folder, settings.toArray(String[]::new));
        System.setProperty(LIMIT, "1");
    }

    /** Opens a reader as a coordinator would: with a note of its session, and a fence. */
    private MqttSource reader(String session, String topic, long start) throws Exception {
        Topic.retain(broker.url(), "speck/session/" + session, "{\"topics\": [\"" + topic + "\"]}");
        MqttSource source = new MqttSource(new SourceSettings(Login.anonymous(broker.url()), session, topic, 65535,
                32 << 20, "speck/fence/" + session, 1, false, Duration.ofSeconds(20)), new MemoryJournal());
        opened.add(source);
        source.open(start, start);
        return source;
    }

    /** Writes messages of a size in another thread; the counter has the number written so far. */
    private Future<?> write(String topic, String job, int count, int bytes, AtomicInteger written) {
        return write(Login.anonymous(broker.url()), topic, job, count, bytes, written);
    }

    /** A broker reports its store every second, for weeks, and sends nothing once 65,535 messages are not acknowledged. */
    @Test
    void aWriterHearsOfLostSessionsAfterAnyNumberOfReports() throws Exception {
        broker = Mosquitto.start(folder);
        long before = SinkMetrics.of("heard").resent();
        try (MqttSink sink = new MqttSink(new SinkSettings(Login.anonymous(broker.url()), Duration.ofSeconds(30)))) {
            sink.send("in/a", new byte[1], null, "heard".getBytes(StandardCharsets.UTF_8),
                    "run/0/0/1".getBytes(StandardCharsets.UTF_8));
            for (int i = 0; i < 66_000; i++) {
                sink.send("speck/again/none", new byte[0], null, null, null);
            }
            sink.flush();
            Topic.retain(broker.url(), "speck/again/last", "in/#");
            Await.until("sent again", () -> SinkMetrics.of("heard").resent() == before + 1);
        }
    }

    private Future<?> write(Login login, String topic, String job, int count, int bytes, AtomicInteger written) {
        return writers.submit(() -> {
            try (MqttSink sink = new MqttSink(new SinkSettings(login, PATIENCE))) {
                for (int i = 0; i < count; i++, written.incrementAndGet()) {
                    byte[] payload = String.format("%-" + bytes + "d", i).getBytes(StandardCharsets.UTF_8);
                    sink.send(topic, payload, null, job.getBytes(StandardCharsets.UTF_8),
                            (Stamp.prefix("run", 0, 0) + i).getBytes(StandardCharsets.UTF_8));
                }
                sink.flush();
            }
            return null;
        });
    }

    /** Reads messages in batches, checks their order, and commits them. */
    private static void readAll(MqttSource source, int count) throws Exception {
        long start = 0;
        while (start < count) {
            long end = source.await(start + 1, TimeUnit.SECONDS.toNanos(1));
            source.close(start, end, 1);
            for (var message : source.messages(start, end)) {
                assertEquals(start++, Long.parseLong(new String(message.payload(), StandardCharsets.UTF_8).trim()));
            }
            source.commit(start);
        }
    }

    private int dropped() throws Exception {
        try (Topic counter = new Topic(broker.url(), DROPPED)) {
            return Integer.parseInt(counter.take(1).get(0));
        }
    }

    private static void awaitThrottled(String job) {
        Await.until("the writer waits", () -> SinkMetrics.of(job).throttledMillis() > 0);
    }

    @Test
    void aWriterWaitsForAReaderThatIsAwayAndNothingIsDropped() throws Exception {
        startSmall();
        reader("speck-b", "b/in", 0).close();
        AtomicInteger written = new AtomicInteger();
        Future<?> writing = write("b/in", "away", 6000, 1000, written);
        awaitThrottled("away");
        TimeUnit.MILLISECONDS.sleep(2 * PATIENCE.toMillis()); // longer than its flush time-out
        assertTrue(!writing.isDone() && written.get() < 2000, written + " messages were written");
        assertEquals(0, dropped());
        readAll(reader("speck-b", "b/in", 0), 6000);
        writing.get();
        assertEquals(0, dropped());
    }

    @Test
    void writersToOtherSessionsGoOn() throws Exception {
        startSmall();
        reader("speck-b", "b/in", 0).close();
        Future<?> waiting = write("b/in", "held", 6000, 1000, new AtomicInteger());
        awaitThrottled("held");
        MqttSource live = reader("speck-c", "c/in", 0);
        Future<?> going = write("c/in", "free", 4000, 1000, new AtomicInteger());
        readAll(live, 4000);
        going.get();
        assertTrue(!waiting.isDone());
        assertEquals(0, dropped());
    }

    @Test
    void aWriterThatBeginsWhenTheBrokerIsFullWaitsToo() throws Exception {
        startSmall();
        reader("speck-b", "b/in", 0).close();
        Future<?> first = write("b/in", "first", 6000, 1000, new AtomicInteger());
        awaitThrottled("first");
        AtomicInteger written = new AtomicInteger();
        Login other = new Login(BrokerAddress.parse(broker.url()), "other", null, TlsFiles.NONE); // as another process
        Future<?> second = write(other, "b/in", "late", 1900, 1000, written);
        Await.until("it waits too", () -> second.isDone() || SinkMetrics.of("late").throttledMillis() > 0);
        assertTrue(!second.isDone(), written + " messages were written");
        assertTrue(!first.isDone());
        assertEquals(0, dropped());
    }

    @Test
    void aBrokerThatDoesNotPublishItsSizeIsJudgedByWhatWasSent() throws Exception {
        startSmall("sys_interval 0");
        reader("speck-b", "b/in", 0).close();
        Future<?> writing = write("b/in", "silent", 6000, 1000, new AtomicInteger());
        awaitThrottled("silent");
        readAll(reader("speck-b", "b/in", 0), 6000);
        writing.get();
    }

    @Test
    void aSessionThatIsDeletedHoldsNobody() throws Exception {
        startSmall();
        reader("speck-b", "b/in", 0).close();
        Future<?> writing = write("b/in", "deleted", 6000, 1000, new AtomicInteger());
        awaitThrottled("deleted");
        Topic.retain(broker.url(), "speck/session/speck-b", "");
        writing.get();
    }

    /** Has devices retain messages, beyond the limit by themselves. */
    private void retainAboveLimit(int megabytes) throws Exception {
        String payload = "x".repeat(1 << 20);
        for (int device = 0; device <= megabytes; device++) {
            Topic.retain(broker.url(), "devices/" + device, payload);
        }
        try (Topic stored = new Topic(broker.url(), "$SYS/broker/store/messages/bytes")) {
            Await.until("the broker's report", () -> stored.all().stream().anyMatch(each -> Long.parseLong(each) > megabytes << 20));
        }
    }

    /** Reads and commits as Flink does, after pauses; returns the number of commits. */
    private static int readSlowly(MqttSource source, int count) throws Exception {
        int commits = 0;
        for (long start = 0; start < count; commits++) {
            TimeUnit.MILLISECONDS.sleep(500);
            long end = source.await(start + 1, TimeUnit.SECONDS.toNanos(1));
            source.close(start, end, 1);
            source.commit(end);
            start = end;
        }
        return commits;
    }

    @Test
    void retainedMessagesOfDevicesDoNotSlowWritersDown() throws Exception {
        startSmall();
        retainAboveLimit(1);
        MqttSource live = reader("speck-b", "b/in", 0);
        Future<?> writing = write("b/in", "beside", 6000, 1000, new AtomicInteger());
        int commits = readSlowly(live, 6000);
        writing.get();
        assertTrue(commits < 40, commits + " commits for 6 MB, of 1 MB at most each");
        assertEquals(0, dropped());
    }

    @Test
    void aReaderThatGoesAwayIsWaitedForBesideRetainedMessages() throws Exception {
        startSmall();
        retainAboveLimit(1);
        MqttSource first = reader("speck-b", "b/in", 0);
        AtomicInteger written = new AtomicInteger();
        Future<?> writing = write("b/in", "stopped", 8000, 1000, written);
        long read = first.await(500, TimeUnit.SECONDS.toNanos(20));
        first.close(0, read, 1);
        first.commit(read);
        TimeUnit.MILLISECONDS.sleep(500);
        first.close();
        awaitThrottled("stopped");
        TimeUnit.SECONDS.sleep(5);
        assertTrue(!writing.isDone() && written.get() < 2500, written + " messages were written");
        assertEquals(0, dropped());
    }

    @Test
    void theLimitsAsShippedFitTogether() throws Exception {
        broker = Mosquitto.shipped(folder);
        reader("speck-b", "b/in", 0).close();
        Future<?> writing = write("b/in", "shipped", 12_000, 16_000, new AtomicInteger());
        awaitThrottled("shipped");
        readAll(reader("speck-b", "b/in", 0), 12_000);
        writing.get();
        assertEquals(0, dropped());
    }
}
