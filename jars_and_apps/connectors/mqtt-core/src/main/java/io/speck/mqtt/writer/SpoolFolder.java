package io.speck.mqtt.writer;

import io.speck.mqtt.Login;
import java.io.IOException;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.function.Predicate;
import java.util.regex.Pattern;
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
    private static final Pattern BROKER = Pattern.compile(".+-\\d+-[0-9a-f]{8}");
    private static final Pattern SEGMENT = Pattern.compile("\\d{19}\\" + Spool.SUFFIX);
    /** A folder without messages may be one that its process is about to lock. */
    private static final Duration NEW = Duration.ofMinutes(1);
    /** Messages that a process left so long ago were not taken over by the next one. */
    private static final Duration OLD = Duration.ofHours(1);
    /** A process that was restarted has the time to take over its own messages, with its own rights. */
    private static final Duration RESTARTED = Duration.ofMinutes(1);

    /** Prefix of the system properties by which the class loaders of a process know of each other's folders. */
    private static final String OWNED = "speck.spool.owned.";

    private final Path path;
    private final String owned;
    private final FileChannel lockFile;
    /** The segments of which all that is whole was read. */
    private final List<Path> read = new ArrayList<>();

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
        SpoolFolder created = null;
        while (created == null) { // one that looks for abandoned folders may have locked the new one
            Path folder = ofBroker(root, login).resolve(UUID.randomUUID().toString().replace("-", ""));
            Files.createDirectories(folder);
            created = locked(folder);
        }
        return created;
    }

    /** Returns the folders of publishers that ended with messages which the broker may not have saved; locked. */
    static List<SpoolFolder> abandoned(Path root, Login login) {
        List<SpoolFolder> found = new ArrayList<>();
        Path parent = ofBroker(root, login);
        try {
            for (Path folder : Files.isDirectory(parent) ? matching(parent, ID) : List.<Path>of()) {
                SpoolFolder own = abandoned(folder);
                if (own != null) {
                    found.add(own);
                }
            }
        } catch (IOException e) {
            unreadable(parent, e);
        }
        return found;
    }

    /** Returns null for a folder in use, one without messages, and one that cannot be locked or listed. */
    private static SpoolFolder abandoned(Path folder) {
        SpoolFolder own = null;
        boolean hasMessages = false;
        try {
            own = locked(folder);
            hasMessages = own != null && !own.segments().isEmpty();
            if (own != null && !hasMessages && !isNew(folder)) {
                own.delete();
            }
        } catch (NoSuchFileException e) {
            LOG.debug("'{}' was deleted meanwhile", folder);
        } catch (IOException e) {
            unreadable(folder, e);
        }
        if (own != null && !hasMessages) {
            own.release();
        }
        return hasMessages ? own : null;
    }

    /** Messages in a folder that no process takes over. */
    record Stranded(Path folder, int messages) {}

    /**
     * Returns the folders of all brokers and users below a root that nobody has locked although their messages are old: the
     * address or the login with which they were written is not used here any more.
     *
     * @param known folders that are passed over, since counting takes reading
     */
    static List<Stranded> stranded(Path root, Set<Path> known) {
        List<Stranded> found = new ArrayList<>();
        for (SpoolFolder each : abandoned(root, broker -> true, OLD)) {
            if (!known.contains(each.path())) {
                found.add(new Stranded(each.path(), each.read(new Delivery()).size()));
            }
            each.release();
        }
        return found;
    }

    /**
     * Returns the folders of publishers with another address or user than a login's that ended some time ago with messages
     * which their broker may not have saved; locked.
     */
    static List<SpoolFolder> ofOtherLogins(Path root, Login login) {
        Path own = ofBroker(root, login);
        return abandoned(root, broker -> !broker.equals(own), RESTARTED);
    }

    private static List<SpoolFolder> abandoned(Path root, Predicate<Path> brokers, Duration age) {
        List<SpoolFolder> found = new ArrayList<>();
        try {
            for (Path broker : Files.isDirectory(root) ? matching(root, BROKER) : List.<Path>of()) {
                for (Path folder : brokers.test(broker) ? matching(broker, ID) : List.<Path>of()) {
                    SpoolFolder own = abandoned(folder, age);
                    if (own != null) {
                        found.add(own);
                    }
                }
            }
        } catch (IOException e) {
            unreadable(root, e);
        }
        return found;
    }

    /** Returns null for a folder in use, and for one without messages, or with newer ones. */
    private static SpoolFolder abandoned(Path folder, Duration age) {
        SpoolFolder own = null;
        boolean isOlder = false;
        try {
            own = locked(folder);
            List<Path> segments = own == null ? List.of() : own.segments();
            isOlder = !segments.isEmpty() && age(segments.get(segments.size() - 1)).compareTo(age) > 0;
        } catch (IOException e) {
            LOG.debug("{}: {}", folder, e.toString());
        }
        if (own != null && !isOlder) {
            own.release();
        }
        return isOlder ? own : null;
    }

    private static void unreadable(Path path, IOException error) {
        LOG.warn("messages that an earlier process left in '{}' cannot be read: {}", path, error.toString());
    }

    private static boolean isNew(Path folder) throws IOException {
        return age(folder).abs().compareTo(NEW) < 0;
    }

    /** The time since a file was changed, or the entries of a folder; negative after the clock was set back. */
    private static Duration age(Path path) throws IOException {
        return Duration.between(Files.getLastModifiedTime(path).toInstant(), Instant.now());
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
            file = lockedFile(folder.resolve(LOCK));
            return file == null ? null : new SpoolFolder(folder, owned, file);
        } finally {
            if (file == null) {
                System.getProperties().remove(owned);
            }
        }
    }

    /** Returns null if another process has locked the file. */
    private static FileChannel lockedFile(Path path) throws IOException {
        FileChannel file = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
        boolean locked = false;
        try {
            locked = file.tryLock() != null;
            return locked ? file : null;
        } finally {
            if (!locked) {
                file.close();
            }
        }
    }

    private List<Path> segments() throws IOException {
        return matching(path, SEGMENT);
    }

    /** Returns the entries of a folder with such a name, sorted. */
    private static List<Path> matching(Path folder, Pattern name) throws IOException {
        List<Path> found = new ArrayList<>();
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(folder,
                entry -> name.matcher(entry.getFileName().toString()).matches())) {
            entries.forEach(found::add);
        } catch (DirectoryIteratorException e) {
            throw e.getCause();
        }
        Collections.sort(found);
        return found;
    }

    /**
     * Reads the messages with their numbers, in order ({@link SegmentReader}). A segment that cannot be read at all is
     * passed over, and {@link #deleteRead} leaves it on disk.
     *
     * @param delivery the progress that all of them count to
     */
    List<OutgoingMessage> read(Delivery delivery) {
        List<OutgoingMessage> messages = new ArrayList<>();
        try {
            for (Path segment : segments()) {
                read(segment, delivery, messages);
            }
        } catch (IOException e) {
            unreadable(path, e);
        }
        return messages;
    }

    private void read(Path segment, Delivery delivery, List<OutgoingMessage> messages) {
        String name = segment.getFileName().toString();
        long first = Long.parseLong(name.substring(0, name.length() - Spool.SUFFIX.length()));
        try {
            SegmentReader reader = new SegmentReader(Files.readAllBytes(segment));
            List<OutgoingMessage> found = reader.read(first, delivery);
            messages.addAll(found);
            read.add(segment);
            if (reader.gaps() > 0) {
                LOG.warn("'{}': {} bytes in {} places are damaged: at least {} messages are lost; the other {} are read",
                        segment, reader.damagedBytes(), reader.gaps(), reader.gaps(), found.size());
            }
        } catch (IOException e) {
            unreadable(segment, e);
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
    synchronized void release() {
        if (!lockFile.isOpen()) {
            return; // another publisher may have it by now
        }
        try {
            lockFile.close();
        } catch (IOException e) {
            LOG.debug("{}: {}", path, e.toString());
        } finally {
            System.getProperties().remove(owned);
        }
    }

    /**
     * Deletes the messages that were read, and the folder if there are no others. It stays locked with others, so that
     * nobody in this process takes it over once more.
     *
     * @return true if the folder is deleted
     */
    boolean deleteRead() {
        try {
            for (Path segment : read) {
                Files.deleteIfExists(segment);
            }
            if (!segments().isEmpty()) {
                return false;
            }
        } catch (IOException e) {
            LOG.warn("'{}' cannot be deleted: {}", path, e.toString());
            return false;
        }
        delete();
        return true;
    }

    /** Deletes the folder with all messages, and ends the lock. */
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
