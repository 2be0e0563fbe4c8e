package io.speck.mqtt.writer;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.speck.mqtt.Login;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import java.util.zip.CRC32C;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The folder of one publisher's {@link Spool}: {@code ROOT/BROKER/ID}, locked for as long as its process lives. The id
 * is that of the publisher's {@link DeliveryMark} as well, by which the broker tells what it still has.
 */
final class SpoolFolder {
    private static final Logger LOG = LoggerFactory.getLogger(SpoolFolder.class);
    private static final String LOCK = "lock";
    private static final Pattern ID = Pattern.compile("[0-9a-f]{32}");
    private static final Pattern SEGMENT = Pattern.compile("\\d{19}\\" + Spool.SUFFIX);
    /** A folder without messages may be one that its process is about to lock. */
    private static final Duration NEW = Duration.ofMinutes(1);
    private static final int LARGEST_RECORD = 256 << 20; // MQTT 5, 2.1.4

    /** Prefix of the system properties by which the class loaders of a process know of each other's folders. */
    private static final String OWNED = "speck.spool.owned.";

    private final Path path;
    private final String owned;
    private final FileChannel lockFile;

    private SpoolFolder(Path path, String owned, FileChannel lockFile) {
        this.path = path;
        this.owned = owned;
        this.lockFile = lockFile;
    }

    Path path() {
        return path;
    }

    String id() {
        return path.getFileName().toString();
    }

    /** Creates a folder of a new publisher. */
    static SpoolFolder create(Path root, Login login) throws IOException {
        Path folder = ofBroker(root, login).resolve(UUID.randomUUID().toString().replace("-", ""));
        Files.createDirectories(folder);
        SpoolFolder created = locked(folder);
        if (created == null) {
            throw new IOException("'" + folder + "' is locked by another process");
        }
        return created;
    }

    /** Returns the folders of publishers that ended with messages which the broker may not have saved; locked. */
    static List<SpoolFolder> abandoned(Path root, Login login) {
        List<SpoolFolder> found = new ArrayList<>();
        Path parent = ofBroker(root, login);
        if (!Files.isDirectory(parent)) {
            return found;
        }
        try (DirectoryStream<Path> folders = Files.newDirectoryStream(parent)) {
            for (Path folder : folders) {
                SpoolFolder own = ID.matcher(folder.getFileName().toString()).matches() ? locked(folder) : null;
                if (own == null) {
                    continue;
                }
                if (!own.segments().isEmpty()) {
                    found.add(own);
                } else if (isNew(folder)) {
                    own.release();
                } else {
                    own.delete();
                }
            }
        } catch (IOException e) {
            LOG.warn("messages that an earlier process left in '{}' cannot be read: {}", parent, e.toString());
        }
        return found;
    }

    /** True if there are such folders; they stay unlocked. */
    static boolean areAbandoned(Path root, Login login) {
        List<SpoolFolder> found = abandoned(root, login);
        found.forEach(SpoolFolder::release);
        return !found.isEmpty();
    }

    private static boolean isNew(Path folder) throws IOException {
        Instant changed = Files.getLastModifiedTime(folder).toInstant();
        return Duration.between(changed, Instant.now()).abs().compareTo(NEW) < 0;
    }

    /** One folder for each broker and user; the name shows the broker, and its hash tells users apart. */
    private static Path ofBroker(Path root, Login login) {
        String name = login + " " + (login.username() == null ? "" : login.username());
        CRC32C sum = new CRC32C();
        sum.update(name.getBytes(StandardCharsets.UTF_8));
        String shown = login.address().host().replaceAll("[^A-Za-z0-9.-]", "_");
        return root.resolve("%s-%d-%08x".formatted(shown, login.address().port(), sum.getValue()));
    }

    /**
     * Returns null if the folder belongs to a publisher that lives, in whatever process or class loader. Its lock file is
     * not even opened within its own process: a process loses its lock on a file when it closes any channel to it.
     */
    private static SpoolFolder locked(Path folder) throws IOException {
        String owned = OWNED + folder.toRealPath();
        if (System.getProperties().putIfAbsent(owned, "") != null) {
            return null;
        }
        FileChannel file = null;
        try {
            file = FileChannel.open(folder.resolve(LOCK), StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            if (file.tryLock() != null) {
                return new SpoolFolder(folder, owned, file);
            }
        } catch (NoSuchFileException e) {
            LOG.debug("'{}' was deleted meanwhile", folder);
        }
        if (file != null) {
            file.close();
        }
        System.getProperties().remove(owned);
        return null;
    }

    private List<Path> segments() throws IOException {
        try (Stream<Path> entries = Files.list(path)) {
            return entries.filter(entry -> SEGMENT.matcher(entry.getFileName().toString()).matches()).sorted().toList();
        }
    }

    /**
     * Reads the messages with their numbers, in order. What a crash left behind the last whole record of a segment was
     * never forced, so its input was not acknowledged: it is passed over.
     *
     * @param delivery the progress that all of them count to
     */
    List<OutgoingMessage> read(Delivery delivery) {
        List<OutgoingMessage> messages = new ArrayList<>();
        try {
            for (Path segment : segments()) {
                String name = segment.getFileName().toString();
                long first = Long.parseLong(name.substring(0, name.length() - Spool.SUFFIX.length()));
                decode(Files.readAllBytes(segment), first, delivery, messages);
            }
        } catch (IOException e) {
            LOG.warn("messages that an earlier process left in '{}' cannot be read: {}", path, e.toString());
        }
        return messages;
    }

    private void decode(byte[] content, long first, Delivery delivery, List<OutgoingMessage> messages) {
        CRC32C sum = new CRC32C();
        ByteBuf bytes = Unpooled.wrappedBuffer(content);
        for (long number = first; bytes.readableBytes() >= Spool.RECORD_HEADER; number++) {
            int length = bytes.readInt();
            int expected = bytes.readInt();
            if (length <= 0 || length > LARGEST_RECORD || length > bytes.readableBytes()) {
                return;
            }
            ByteBuffer packet = bytes.nioBuffer(bytes.readerIndex(), length);
            if (Spool.checkSum(sum, packet) != expected) {
                LOG.warn("'{}': message {} is damaged; it and the rest of its segment are passed over", path, number);
                return;
            }
            OutgoingMessage message = OutgoingMessage.decode(delivery, bytes.readSlice(length));
            message.deliveryNumber = number;
            messages.add(message);
        }
    }

    /** Makes the names in a folder survive a power cut, also in a thread that is interrupted. */
    static void forceNames(Path folder) throws IOException {
        boolean interrupted = false;
        try {
            while (!namesForced(folder)) {
                interrupted |= Thread.interrupted();
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Returns false if an interrupt has ended it: a folder can be opened as a channel alone. */
    private static boolean namesForced(Path folder) throws IOException {
        try (FileChannel names = FileChannel.open(folder, StandardOpenOption.READ)) {
            names.force(true);
            return true;
        } catch (ClosedByInterruptException e) {
            return false;
        }
    }

    /** Ends the lock; the messages stay. */
    void release() {
        try {
            lockFile.close();
        } catch (IOException e) {
            LOG.debug("{}: {}", path, e.toString());
        } finally {
            System.getProperties().remove(owned);
        }
    }

    /** Deletes the folder. */
    void delete() {
        try {
            for (Path segment : segments()) {
                Files.deleteIfExists(segment);
            }
            Files.deleteIfExists(path.resolve(LOCK));
            Files.deleteIfExists(path);
        } catch (IOException e) {
            LOG.warn("'{}' cannot be deleted: {}", path, e.toString());
        } finally {
            release();
        }
    }
}
