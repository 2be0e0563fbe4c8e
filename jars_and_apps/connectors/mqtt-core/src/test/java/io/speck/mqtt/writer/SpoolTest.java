package io.speck.mqtt.writer;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import io.netty.buffer.Unpooled;
import io.speck.mqtt.Await;
import io.speck.mqtt.Login;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Writes messages to disk, and reads what a process left. */
class SpoolTest {
    private static final Login BROKER = Login.anonymous("tcp://127.0.0.1:1883");

    @TempDir
    Path root;
    private final ReentrantLock lock = new ReentrantLock();

    private static OutgoingMessage message(int number, int size) {
        byte[] payload = new byte[size];
        Arrays.fill(payload, (byte) 0xFF);
        return new OutgoingMessage(new Delivery(), "a/\u00e4", bytes("a/\u00e4"), payload,
                number % 2 == 0 ? null : bytes("key"), bytes("job"), bytes("run/0/0/" + number),
                new OutgoingMessage.UserProperty(bytes("more"), bytes("value")));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] wire(OutgoingMessage message) {
        ByteBuf out = Unpooled.buffer();
        message.encode(7, message.retainNumber != 0, out);
        return ByteBufUtil.getBytes(out);
    }

    private static List<Path> segments(SpoolFolder folder) throws IOException {
        try (Stream<Path> entries = Files.list(folder.path())) {
            return entries.filter(each -> each.toString().endsWith(Spool.SUFFIX)).sorted().toList();
        }
    }

    private static List<OutgoingMessage> read(List<SpoolFolder> folders) {
        return folders.stream().flatMap(folder -> folder.read(new Delivery()).stream()).toList();
    }

    @Test
    void aMessageIsReadAsItWasWritten() {
        for (int size : new int[] {0, 1, 127, 128, 20_000, 3_000_000}) {
            OutgoingMessage written = message(size, size);
            ByteBuf packet = Unpooled.buffer();
            written.encode(0, size % 2 == 1, packet);
            written.retainNumber = size % 2;
            OutgoingMessage found = OutgoingMessage.decode(new Delivery(), packet);
            assertArrayEquals(wire(written), wire(found));
            assertEquals(written.topic, found.topic);
            assertTrue(found.stamped());
        }
    }

    @Test
    void forcedMessagesAreThereForTheNextProcessAndForNoOtherOne() throws IOException {
        SpoolFolder folder = SpoolFolder.create(root, BROKER);
        Spool spool = new Spool(folder, lock);
        for (int number = 1; number <= 5000; number++) {
            spool.append(message(number, 700), number);
        }
        assertTrue(spool.force());
        assertTrue(segments(folder).size() > 2, "segments");
        assertEquals(List.of(), SpoolFolder.abandoned(root, BROKER), "while its process lives");
        folder.release();
        assertEquals(List.of(), SpoolFolder.abandoned(root, Login.anonymous("tcp://127.0.0.1:1884")));
        List<SpoolFolder> found = SpoolFolder.abandoned(root, BROKER);
        List<OutgoingMessage> messages = read(found);
        assertEquals(5000, messages.size());
        assertEquals(5000, messages.get(4999).deliveryNumber);
        assertArrayEquals(wire(message(77, 700)), wire(messages.get(76)));
        found.forEach(SpoolFolder::delete);
        assertFalse(Files.exists(folder.path()));
    }

    @Test
    void messagesThatAreHeldWhenTheFolderIsGivenAreWrittenWithTheirNumbers() throws IOException {
        SpoolFolder folder = SpoolFolder.create(root, BROKER);
        RetransmissionBuffer buffer = new RetransmissionBuffer(TimeUnit.SECONDS.toNanos(10), 3 << 20);
        for (int number = 1; number <= 10; number++) {
            buffer.add(message(number, 100));
        }
        List<OutgoingMessage> held = buffer.again(each -> true);
        buffer.drop(held.get(4));
        Spool spool = new Spool(folder, lock);
        buffer.spool(spool);
        buffer.add(message(11, 100));
        spool.force();
        assertEquals(List.of(1L, 2L, 3L, 4L, 6L, 7L, 8L, 9L, 10L, 11L),
                folder.read(new Delivery()).stream().map(each -> each.deliveryNumber).toList());
    }

    @Test
    void aTornRecordEndsItsSegment() throws IOException {
        SpoolFolder folder = SpoolFolder.create(root, BROKER);
        Path segment = segmentOfTen(folder);
        byte[] whole = Files.readAllBytes(segment);
        Files.write(segment, Arrays.copyOf(whole, whole.length - 5));
        assertEquals(9, folder.read(new Delivery()).size());
        Files.write(segment, new byte[4096], StandardOpenOption.APPEND); // as a file system leaves it after a power cut
        assertEquals(9, folder.read(new Delivery()).size());
    }

    private Path segmentOfTen(SpoolFolder folder) throws IOException {
        Spool spool = new Spool(folder, lock);
        for (int number = 1; number <= 10; number++) {
            spool.append(message(number, 100), number);
        }
        spool.force();
        return segments(folder).get(0);
    }

    private static List<Long> numbers(SpoolFolder folder) {
        return folder.read(new Delivery()).stream().map(each -> each.deliveryNumber).toList();
    }

    /** Each record: a length of 4 bytes, a check sum of 4 bytes, and the packet. */
    private static int[] places(byte[] segment) {
        int[] places = new int[10];
        for (int i = 1; i < places.length; i++) {
            places[i] = places[i - 1] + Spool.RECORD_HEADER + Unpooled.wrappedBuffer(segment).getInt(places[i - 1]);
        }
        return places;
    }

    @Test
    void aDamagedPacketOrCheckSumIsTheOnlyOneThatIsLost() throws IOException {
        SpoolFolder folder = SpoolFolder.create(root, BROKER);
        Path segment = segmentOfTen(folder);
        byte[] whole = Files.readAllBytes(segment);
        for (int place : new int[] {4, Spool.RECORD_HEADER, 100}) {
            byte[] damaged = whole.clone();
            damaged[places(whole)[4] + place] ^= 1;
            Files.write(segment, damaged);
            assertEquals(List.of(1L, 2L, 3L, 4L, 6L, 7L, 8L, 9L, 10L), numbers(folder), "byte " + place);
        }
        whole[places(whole)[9] + 20] ^= 1;
        Files.write(segment, whole);
        assertEquals(9, numbers(folder).size(), "the last one");
    }

    /** The numbers of those behind it are not known: no mark may count them as delivered. */
    @Test
    void messagesBehindADamagedLengthAreReadAndCountAsNotDelivered() throws IOException {
        SpoolFolder folder = SpoolFolder.create(root, BROKER);
        Path segment = segmentOfTen(folder);
        byte[] whole = Files.readAllBytes(segment);
        int[] places = places(whole);
        long none = SegmentReader.UNNUMBERED;
        for (int flipped : new int[] {0, 2, 3}) { // a length that is too large, wrong, and wrong by one
            byte[] damaged = whole.clone();
            damaged[places[6] + flipped] ^= 1;
            Files.write(segment, damaged);
            assertEquals(List.of(1L, 2L, 3L, 4L, 5L, 6L, none, none, none), numbers(folder), "byte " + flipped);
        }
        Arrays.fill(whole, places[2] + 50, places[5] + 6, (byte) 0);
        Files.write(segment, whole);
        assertEquals(List.of(1L, 2L, none, none, none, none), numbers(folder), "a block of zeros");
    }

    @Test
    void aSegmentThatCannotBeReadStaysForALaterProcessAndTheOthersAreRead() throws IOException {
        SpoolFolder folder = SpoolFolder.create(root, BROKER);
        Spool spool = new Spool(folder, lock);
        for (int number = 1; number <= 5000; number++) {
            spool.append(message(number, 700), number);
        }
        spool.leave();
        Path first = segments(folder).get(0);
        String second = segments(folder).get(1).getFileName().toString();
        Files.delete(first);
        Files.createDirectory(first);
        SpoolFolder found = SpoolFolder.abandoned(root, BROKER).get(0);
        List<OutgoingMessage> messages = found.read(new Delivery());
        assertEquals(Long.parseLong(second.replace(Spool.SUFFIX, "")), messages.get(0).deliveryNumber);
        assertEquals(5000, messages.get(messages.size() - 1).deliveryNumber);
        assertFalse(found.deleteRead());
        assertEquals(List.of(first), segments(found));
        assertEquals(List.of(), SpoolFolder.abandoned(root, BROKER), "while its process lives");
        found.release();
        assertEquals(1, SpoolFolder.abandoned(root, BROKER).size());
    }

    /** The folder of a publisher that has ended, with one message. */
    private SpoolFolder left() throws IOException {
        SpoolFolder folder = SpoolFolder.create(root, BROKER);
        Spool spool = new Spool(folder, lock);
        spool.append(message(1, 10), 1);
        spool.leave();
        return folder;
    }

    /** Its broker has another address now, or its jobs another user. */
    @Test
    void aFolderThatNobodyTakesOverIsFound() throws IOException {
        SpoolFolder folder = SpoolFolder.create(root, BROKER);
        Spool spool = new Spool(folder, lock);
        spool.append(message(1, 10), 1);
        assertTrue(spool.force());
        Path segment = segments(folder).get(0);
        FileTime old = FileTime.from(Instant.now().minus(Duration.ofHours(2)));
        Files.setLastModifiedTime(segment, old);
        assertEquals(List.of(), SpoolFolder.stranded(root, Set.of()), "while its process lives");
        spool.leave();
        Files.setLastModifiedTime(segment, old);
        assertEquals(List.of(new SpoolFolder.Stranded(folder.path(), 1)), SpoolFolder.stranded(root, Set.of()));
        assertEquals(List.of(), SpoolFolder.stranded(root, Set.of(folder.path())), "it is known");
        assertEquals(1, read(SpoolFolder.abandoned(root, BROKER)).size(), "it is not locked");
        assertEquals(List.of(), SpoolFolder.stranded(root, Set.of()), "it is taken over");
    }

    @Test
    void aFolderThatWasJustLeftIsNotStranded() throws IOException {
        left();
        assertEquals(List.of(), SpoolFolder.stranded(root, Set.of()));
    }

    @Test
    void aFolderThatCannotBeLockedIsTriedAgain() throws IOException {
        SpoolFolder folder = left();
        Path file = folder.path().resolve("lock");
        Files.delete(file);
        Files.createDirectory(file);
        assertEquals(List.of(), SpoolFolder.abandoned(root, BROKER));
        Files.delete(file);
        assertEquals(1, read(SpoolFolder.abandoned(root, BROKER)).size());
    }

    @Test
    void diskSpaceIsGivenBackWithTheMessages() throws IOException {
        SpoolFolder folder = SpoolFolder.create(root, BROKER);
        RetransmissionBuffer buffer = new RetransmissionBuffer(TimeUnit.SECONDS.toNanos(10), 3 << 20);
        Spool spool = new Spool(folder, lock);
        buffer.spool(spool);
        for (int number = 1; number <= 20_000; number++) {
            buffer.add(message(number, 700));
        }
        assertTrue(spool.force());
        assertTrue(segments(folder).size() <= 5, "segments of 20 MB, of which 3 are held");
        long held = buffer.again(each -> true).size();
        List<OutgoingMessage> found = folder.read(new Delivery());
        assertTrue(found.size() >= held, found.size() + " of " + held);
    }

    @Test
    void whatIsTakenOverIsHeldBeyondTheBoundUntilOwnMessagesReachIt() throws IOException {
        SpoolFolder folder = SpoolFolder.create(root, BROKER);
        RetransmissionBuffer buffer = new RetransmissionBuffer(TimeUnit.SECONDS.toNanos(10), 1 << 20);
        Spool spool = new Spool(folder, lock);
        buffer.spool(spool);
        for (int number = 1; number <= 5000; number++) {
            buffer.takeOver(message(number, 700));
        }
        assertTrue(spool.force());
        assertEquals(5000, folder.read(new Delivery()).size());
        for (int number = 5001; number <= 7000; number++) {
            buffer.add(message(number, 700));
        }
        int held = buffer.again(each -> true).size();
        assertTrue(held > 500 && held < 1500, "own messages: " + held);
        assertEquals(7000 - held, buffer.confirmedNumber(), "those before are dropped");
    }

    @Test
    void aThreadThatIsInterruptedDoesNotEndTheSpool() throws IOException {
        SpoolFolder folder = SpoolFolder.create(root, BROKER);
        Spool spool = new Spool(folder, lock);
        spool.append(message(1, 10), 1);
        Thread.currentThread().interrupt();
        boolean first = spool.force();
        assertTrue(Thread.interrupted(), "its flag stays set");
        assertTrue(first);
        spool.append(message(2, 10), 2);
        assertTrue(spool.force());
        assertEquals(2, folder.read(new Delivery()).size());
    }

    /** Event loops append messages: one that waits answers no broker, and all of its connections end. */
    @Test
    void aDiskThatStallsHoldsUpNobodyThatAppends() throws Exception {
        SpoolFolder folder = SpoolFolder.create(root, BROKER);
        Spool spool = new Spool(folder, lock);
        Path segment = folder.path().resolve("%019d%s".formatted(1, Spool.SUFFIX));
        assertEquals(0, new ProcessBuilder("mkfifo", segment.toString()).start().waitFor()); // opened once it is read
        assertTimeoutPreemptively(Duration.ofSeconds(20), () -> spool.append(message(1, 100_000), 1));
        assertFalse(spool.isBehind());
        assertTimeoutPreemptively(Duration.ofSeconds(20), () -> spool.append(message(2, 9 << 20), 2));
        assertTrue(spool.isBehind(), "writers wait");
        try (InputStream disk = Files.newInputStream(segment)) {
            assertEquals(0, disk.read(), "a length");
        }
        Await.until("the end of the wait", () -> !spool.isBehind()); // as after any error of the disk
    }

    @Test
    void messagesWithoutAForceReachTheDiskInTheirOrder() throws IOException {
        SpoolFolder folder = SpoolFolder.create(root, BROKER);
        Spool spool = new Spool(folder, lock);
        for (int number = 1; number <= 5000; number++) {
            spool.append(message(number, 700), number);
        }
        Await.until("most of them", () -> numbers(folder).size() > 4800);
        List<Long> found = numbers(folder);
        assertEquals(LongStream.rangeClosed(1, found.size()).boxed().toList(), found);
    }

    @Test
    void aDiskThatFailsEndsNoWriter() throws IOException {
        SpoolFolder folder = SpoolFolder.create(root, BROKER);
        Spool spool = new Spool(folder, lock);
        Files.delete(folder.path().resolve("lock"));
        Files.delete(folder.path());
        spool.append(message(1, 10), 1);
        assertFalse(spool.force());
        spool.append(message(2, 10), 2);
    }
}
