package io.speck.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.speck.connector.writer.SinkMetrics;
import io.speck.mqtt.failure.LeftOut;
import io.speck.mqtt.failure.OnError;
import io.speck.mqtt.reader.MqttSource;
import io.speck.mqtt.stamp.Stamp;
import io.speck.mqtt.writer.MqttSink;
import io.speck.mqtt.writer.WriterProcess;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * A writer and its broker die together, and the next process of the site writes to the broker. The broker saves only on
 * request of the test.
 */
@Timeout(value = 120, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class SitePowerCutTest {
    private static final long SECOND = TimeUnit.SECONDS.toNanos(1);
    private static final Duration PATIENCE = Duration.ofSeconds(40);

    @TempDir
    Path folder;
    private Path spool;
    private Mosquitto broker;
    private final List<AutoCloseable> opened = new CopyOnWriteArrayList<>();
    private final Executor opening = command -> new Thread(command).start();

    @BeforeEach
    void start() throws Exception {
        broker = Mosquitto.start(folder, "autosave_interval 0");
        spool = folder.resolve("spool");
        prepare(broker.url());
        reader().close(); // the session is there from now on
        broker.save();
    }

    @AfterEach
    void stop() throws Exception {
        for (AutoCloseable each : opened) {
            each.close();
        }
        broker.close();
    }

    /** Makes the records of the session, before its first reader. */
    void prepare(String url) throws Exception {}

    /** The topic of the session's fence; null for none. */
    String fence() {
        return null;
    }

    private MqttSource reader() throws Exception {
        return reader(new MemoryJournal(), 0);
    }

    private MqttSource reader(MemoryJournal journal, long committed) throws Exception {
        return reader(journal, committed, committed, PATIENCE);
    }

    private MqttSource reader(MemoryJournal journal, long committed, long end, Duration patience) throws Exception {
        MqttSource source = new MqttSource(new SourceSettings(Login.anonymous(broker.url()), "reader", "in/#", 65535,
                32 << 20, fence(), fence() == null ? -1 : 1, false, patience), journal);
        opened.add(source);
        source.open(committed, end);
        return source;
    }

    private WriterProcess writer(int from, int to) throws IOException {
        return WriterProcess.flushed(broker.url(), spool, from, to);
    }

    /** Has a process write messages, and end once the broker has its mark of them. */
    private void writeUntilMarked(int count) throws Exception {
        WriterProcess process = writer(0, count);
        try {
            awaitMark(count);
        } finally {
            process.close();
        }
    }

    private void awaitMark(int number) throws Exception {
        try (Topic marks = new Topic(broker.url(), "speck/sink/+")) {
            Await.until("the mark", () -> marks.all().contains(Integer.toString(number)));
        }
    }

    private MqttSink nextWriter() throws Exception {
        MqttSink sink = new MqttSink(new SinkSettings(Login.anonymous(broker.url()), PATIENCE).withSpool(spool.toString()));
        opened.add(sink);
        return sink;
    }

    private void send(MqttSink sink, int number) throws Exception {
        sink.send("in/a", bytes("m" + number), null, bytes("job"), bytes(Stamp.prefix("run", 0, 0) + number));
        sink.flush();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private void assertArrived(int count) throws Exception {
        assertArrived(reader(), 0, count);
    }

    private static void assertArrived(MqttSource source, int from, int to) throws Exception {
        Await.until("messages up to " + to, () -> source.await(to, SECOND) >= to);
        List<String> texts = source.messages(from, to).stream()
                .map(each -> new String(each.payload(), StandardCharsets.UTF_8))
                .sorted(Comparator.comparingInt(text -> Integer.parseInt(text.substring(1)))).toList();
        assertEquals(IntStream.range(from, to).mapToObj(number -> "m" + number).toList(), texts);
        assertEquals(to, source.await(to + 1, SECOND / 2), "none twice");
    }

    private List<Path> folders() throws IOException {
        try (Stream<Path> found = Files.walk(spool, 2)) {
            return found.filter(each -> spool.relativize(each).getNameCount() == 2).toList();
        }
    }

    @Test
    void theNextProcessSendsWhatTheBrokerHadNotSaved() throws Exception {
        WriterProcess first = writer(0, 3000);
        first.close();
        broker.kill();
        broker.start();
        send(nextWriter(), 3000);
        assertArrived(3001);
        Await.until("one folder", () -> folders().size() == 1);
    }

    @Test
    void whatCannotBeReadStaysOnDiskAndTheRestIsSent() throws Exception {
        writer(0, 300).close();
        Path unreadable = Files.createDirectory(folders().get(0).resolve("%019d.log".formatted(0)));
        broker.kill();
        broker.start();
        send(nextWriter(), 300);
        assertArrived(301);
        Await.until("the rest is deleted", () -> segments(unreadable.getParent()).equals(List.of(unreadable)));
    }

    private static List<Path> segments(Path folder) throws IOException {
        try (Stream<Path> found = Files.list(folder)) {
            return found.filter(each -> each.toString().endsWith(".log")).toList();
        }
    }

    /** The next process parks nothing, and opens no writer. */
    @Test
    void parkedMessagesOutliveTheCut() throws Exception {
        WriterProcess first = WriterProcess.parked(broker.url(), spool, 0, 300);
        first.close();
        broker.kill();
        broker.start();
        leftOut();
        assertArrived(300);
        Await.until("one folder", () -> folders().size() == 1);
    }

    @Test
    void parkedMessagesAreSentAgainToABrokerThatLostThem() throws Exception {
        LeftOut leftOut = leftOut();
        for (int number = 0; number < 100; number++) {
            leftOut.add("elsewhere", bytes("m" + number), null, "no number");
        }
        leftOut.flush();
        broker.kill();
        broker.start();
        assertArrived(100);
    }

    private LeftOut leftOut() {
        SinkSettings settings = new SinkSettings(Login.anonymous(broker.url()), PATIENCE).withSpool(spool.toString());
        LeftOut leftOut = new LeftOut(OnError.of("park", "in/a", "job"), settings);
        opened.add(leftOut);
        return leftOut;
    }

    @Test
    void whatTheBrokerHasIsNotSentAgain() throws Exception {
        long before = SinkMetrics.of("job").resent();
        writeUntilMarked(100);
        MqttSink next = nextWriter();
        send(next, 100);
        assertArrived(101);
        assertEquals(before, SinkMetrics.of("job").resent());
    }

    /** Those that do not take the messages over wait with their connection for the one that does. */
    @Test
    void whatTheBrokerHasIsNotSentAgainByWritersThatBeginTogether() throws Exception {
        long before = SinkMetrics.of("job").resent();
        writeUntilMarked(20_000);
        List<CompletableFuture<Void>> writers = IntStream.range(20_000, 20_004)
                .mapToObj(number -> CompletableFuture.runAsync(() -> sendByWriterOfItsOwn(number), opening)).toList();
        writers.forEach(CompletableFuture::join);
        assertArrived(20_004);
        assertEquals(before, SinkMetrics.of("job").resent());
    }

    private void sendByWriterOfItsOwn(int number) {
        try {
            send(nextWriter(), number);
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    /** All of its messages are at the broker once more before the mark is due again. */
    @Test
    void aBrokerThatForgotTheMarkGetsItAgain() throws Exception {
        opened.add(writer(0, 100));
        awaitMark(100);
        broker.kill();
        broker.forget();
        broker.start();
        awaitMark(100);
    }

    /** It ends within the second in which its mark is still an older one. */
    @Test
    void aProcessThatIsAskedToEndLeavesNothingThatIsSentTwice() throws Exception {
        for (int round = 0; round < 3; round++) {
            writer(100 * round, 100 * round + 100).terminate();
        }
        send(nextWriter(), 300);
        MqttSource reader = reader();
        assertArrived(reader, 0, 301);
        assertEquals(0, reader.metrics().duplicatesDropped());
    }

    @Test
    void aProcessMayBeginToWriteWhenItEnds() throws Exception {
        opened.add(WriterProcess.ending(broker.url(), spool, 0, 100));
        assertArrived(100);
    }

    /** The broker hangs, so that the mark cannot be written. */
    @Test
    void aProcessThatIsAskedToEndDoesNotWaitForABrokerThatHangs() throws Exception {
        WriterProcess process = writer(0, 100);
        broker.pause();
        process.terminate();
        broker.kill();
        broker.start();
        send(nextWriter(), 100);
        assertArrived(101);
    }

    @Test
    void aBrokerThatDiesAfterItsWriterGetsTheMessagesToo() throws Exception {
        writeUntilMarked(100);
        MqttSink next = nextWriter();
        send(next, 100); // the broker has all, in memory alone
        broker.kill();
        broker.start();
        send(next, 101);
        assertArrived(102);
    }

    /** It finds the messages when it connects to the broker that has lost them. */
    @Test
    void aProcessThatRunsSendsWhatAnotherOneHasLeftSince() throws Exception {
        MqttSink running = nextWriter();
        send(running, 300);
        writer(0, 300).terminate();
        broker.kill();
        broker.start();
        send(running, 301);
        assertArrived(302);
        Await.until("one folder", () -> folders().size() == 1);
    }

    @Test
    void twoCutsInARowLoseNothing() throws Exception {
        writer(0, 500).close();
        broker.kill();
        broker.start();
        writer(500, 1000).close(); // takes the messages over, and dies as well
        broker.kill();
        broker.start();
        send(nextWriter(), 1000);
        assertArrived(1001);
    }

    @Test
    void severalProcessesOfASiteLeaveTheirMessages() throws Exception {
        WriterProcess one = writer(0, 300);
        WriterProcess other = writer(300, 600);
        assertEquals(2, folders().size());
        one.close();
        other.close();
        broker.kill();
        broker.start();
        send(nextWriter(), 600);
        assertArrived(601);
    }

    @Test
    void aSessionThatIsCreatedAnewGetsThemAsWell() throws Exception {
        MemoryJournal journal = new MemoryJournal();
        WriterProcess first = writer(0, 200);
        MqttSource source = reader(journal, 0);
        assertArrived(source, 0, 200);
        source.close(0, 100, 1);
        source.commit(100);
        source.close();
        first.close();
        broker.kill();
        broker.forget();
        broker.start();
        long before = SinkMetrics.of("job").resent();
        MqttSink next = nextWriter();
        send(next, 200); // no session receives it, nor what is sent again at once
        Await.until("sent again", () -> SinkMetrics.of("job").resent() >= before + 200);
        assertArrived(reader(journal, 100), 100, 201);
    }

    /** The reader had a batch that it had not committed, and gives it up before the writer starts again. */
    @Test
    void messagesOfABatchThatWasGivenUpArriveOnceTheWriterIsBack() throws Exception {
        MemoryJournal journal = givenUp();
        MqttSource source = reader(journal, 0, 200, Duration.ofSeconds(1));
        source.awaitWhole();
        assertEquals(List.of(), source.messages(0, 200), "given up");
        source.commit(200);
        send(nextWriter(), 200);
        assertArrivedLate(source, 201);
    }

    /** The same, and the reader restarts once more in between. */
    @Test
    void theyArriveAtAReaderThatRestartsAfterItGaveUp() throws Exception {
        MemoryJournal journal = givenUp();
        MqttSource source = reader(journal, 0, 200, Duration.ofSeconds(1));
        source.awaitWhole();
        source.commit(200);
        source.close();
        MqttSource next = reader(journal, 200, 200, PATIENCE);
        send(nextWriter(), 200);
        assertArrivedLate(next, 201);
    }

    /** Leaves an uncommitted batch of 200 messages, and a broker that has none of them. */
    private MemoryJournal givenUp() throws Exception {
        MemoryJournal journal = new MemoryJournal();
        WriterProcess first = writer(0, 200);
        MqttSource source = reader(journal, 0);
        assertArrived(source, 0, 200);
        source.close(0, 200, 1);
        source.close();
        first.close();
        broker.kill();
        broker.forget();
        broker.start();
        return journal;
    }

    /** The first offsets are those of the batch that was given up. */
    private static void assertArrivedLate(MqttSource source, int count) throws Exception {
        Await.until("all", () -> source.await(200 + count, SECOND) >= 200 + count);
        List<String> texts = source.messages(200, 200 + count).stream()
                .map(each -> new String(each.payload(), StandardCharsets.UTF_8)).sorted().toList();
        assertEquals(IntStream.range(0, count).mapToObj(number -> "m" + number).sorted().toList(), texts);
    }

    /** The bridge carries the mark of a writer to another broker, and back after the restart. */
    @Test
    void aMarkThatABridgeBringsBackIsNotBelieved() throws Exception {
        broker.close();
        try (Mosquitto other = Mosquitto.start(Files.createDirectories(folder.resolve("elsewhere")));
                Topic copies = new Topic(other.url(), "speck/sink/+")) {
            broker = Mosquitto.start(folder, "autosave_interval 0", "connection bridge",
                    "address 127.0.0.1:" + other.port(), "topic # both 2");
            reader().close();
            broker.save();
            try (CuttingProxy proxy = new CuttingProxy(broker.port());
                    MqttSink sink = new MqttSink(new SinkSettings(Login.anonymous(proxy.url()), PATIENCE))) {
                for (int number = 0; number < 500; number++) {
                    send(sink, number);
                }
                Await.until("the mark at the other broker", () -> copies.all().contains("500"));
                proxy.refuse(true);
                proxy.cut();
                broker.kill();
                broker.start();
                try (Topic back = new Topic(broker.url(), "speck/sink/+")) {
                    Await.until("the mark is back", () -> back.all().contains("500"));
                }
                proxy.refuse(false);
                send(sink, 500);
                assertArrived(501);
            }
        }
    }
}
