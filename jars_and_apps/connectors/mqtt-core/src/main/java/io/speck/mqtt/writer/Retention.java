package io.speck.mqtt.writer;

import io.netty.handler.codec.mqtt.MqttPublishMessage;
import io.speck.mqtt.Login;
import io.speck.mqtt.net.Connection;
import io.speck.mqtt.net.ResendRequest;
import io.speck.mqtt.net.Runtime;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Measures of one publisher against a broker that forgets: it holds acknowledged messages ({@link RetransmissionBuffer}),
 * writes the {@link DeliveryMark} once a second meanwhile, and selects the messages to be sent again. Shares the
 * publisher's lock, which its callers hold unless said otherwise.
 *
 * <p>With a folder for them ({@link #spoolIn}), the messages are on disk as well ({@link Spool}), and those that another
 * process has left there are taken over before each connection: the mark of that process shows which of them the broker
 * has.
 */
final class Retention {
    private static final Logger LOG = LoggerFactory.getLogger(Retention.class);
    private static final long MARK_MILLIS = 1000;
    private static final long NO_MARK = -1;
    private static final int REQUESTS_REMEMBERED = 1000;
    /** A site may be without power for weeks; without its mark, all of its messages would be sent again. */
    private static final int SPOOLED_MARK_SECONDS = (int) TimeUnit.DAYS.toSeconds(28);

    private final ReentrantLock lock;
    private final Login login;
    private final RetransmissionBuffer buffer = new RetransmissionBuffer();
    private final RenewableSpool disk;
    private final BrokerLife life = new BrokerLife();
    private final Set<String> handledRequests = new LinkedHashSet<>();
    /** Read without the lock by the threads that connect and receive, as are the predecessors. */
    private final Set<Path> roots = ConcurrentHashMap.newKeySet();
    private final List<Predecessor> predecessors = new CopyOnWriteArrayList<>();
    /** Their folders, of which some stay: those with messages that could not be read, or not written again. */
    private final List<SpoolFolder> takenOver = new ArrayList<>();
    private volatile DeliveryMark deliveryMark =
            new DeliveryMark(UUID.randomUUID().toString().replace("-", ""), ResendRequest.EXPIRY_SECONDS);
    private boolean ended;
    private Connection connection;
    /** The number in the mark of the broker. */
    private long markedNumber;
    private boolean markScheduled;

    Retention(ReentrantLock lock, Login login) {
        this.lock = lock;
        this.login = login;
        this.disk = new RenewableSpool(lock, login, buffer, this::beginMark);
    }

    boolean isEmpty() {
        return buffer.isEmpty();
    }

    // ---- the disk ----

    /**
     * Holds messages on disk too, from now on, below {@code root}. Only the first of several roots is written to.
     *
     * @return true if there may be messages of others ({@link #abandoned}), since the root is new
     */
    boolean spoolIn(Path root) {
        if (ResendRequest.retentionSeconds() == 0 || !roots.add(root)) {
            return false;
        }
        StrandedSpools.watch(root);
        disk.begin(root);
        return true;
    }

    /** True if messages below a root are taken over by this publisher; lock not held. */
    boolean knows(Path root) {
        return roots.contains(root);
    }

    /** The id of the folder with the messages; null if they are not all on disk. */
    String spoolId() {
        Spool current = disk.current();
        return current == null || current.hasFailed() ? null : current.id();
    }

    /** Returns the folders for this broker below the roots that others have left, locked; lock not held. */
    List<SpoolFolder> abandoned() {
        return roots.stream().flatMap(root -> SpoolFolder.abandoned(root, login).stream()).toList();
    }

    /** The mark is another one with another folder, since it is found by its id. */
    private void beginMark(SpoolFolder folder) {
        if (connection != null) {
            deliveryMark.delete(connection);
        }
        deliveryMark = new DeliveryMark(folder.id(), SPOOLED_MARK_SECONDS);
        markedNumber = 0;
    }

    /** Reads what others have left; lock not held. */
    static List<Predecessor> read(List<SpoolFolder> folders) {
        return folders.stream().map(each -> Predecessor.read(each, SPOOLED_MARK_SECONDS)).toList();
    }

    /** Takes messages over; returns them in order. A new connection shows what the broker has of them. */
    List<OutgoingMessage> takeOver(List<Predecessor> found) {
        List<OutgoingMessage> messages = found.stream().flatMap(each -> each.messages().stream()).toList();
        LOG.info("broker {}: takes over {} messages of other processes", login, messages.size());
        messages.forEach(buffer::takeOver);
        predecessors.addAll(found);
        found.forEach(each -> takenOver.add(each.folder()));
        return messages;
    }

    /** True while writers should wait for the disk. */
    boolean isBehindAtDisk() {
        Spool current = disk.current();
        return current != null && current.isBehind();
    }

    /** Returns when all held messages would survive a power cut, if there is a folder for them; lock not held. */
    void force() {
        Spool current = disk.current();
        if (current != null) {
            current.force();
        }
    }

    // ---- the connection ----

    /** Prepares for a new connection; called before it is opened. */
    void reset() {
        marks().forEach(DeliveryMark::reset);
        life.reset();
    }

    private List<DeliveryMark> marks() {
        List<DeliveryMark> marks = new ArrayList<>(List.of(deliveryMark));
        predecessors.forEach(each -> marks.add(each.mark()));
        return marks;
    }

    /** The filters to subscribe to on each connection. */
    List<String> filters() {
        List<String> filters = new ArrayList<>(List.of(deliveryMark.topic(), ResendRequest.TOPICS + "+"));
        predecessors.forEach(each -> filters.add(each.mark().topic()));
        filters.addAll(life.filters());
        return filters;
    }

    /**
     * Reads the marks of this publisher and its predecessors, which one subscription asks for; lock not held.
     *
     * @param needed false if the number of this publisher does not matter
     * @return that number; 0 without a mark
     */
    long readMark(Connection opened, boolean needed, Duration timeout) throws InterruptedException {
        boolean complete = DeliveryMark.awaitRetained(opened, timeout);
        long deadline = DeliveryMark.deadline();
        for (Predecessor each : predecessors) {
            each.delivered(complete ? each.mark().number(deadline) : 0);
        }
        return complete && needed ? deliveryMark.number(deadline) : 0;
    }

    /** Uses this connection from now on; returns the messages that the broker may have lost, in order. */
    List<OutgoingMessage> connected(Connection opened, long delivered) {
        connection = opened;
        long now = System.nanoTime();
        buffer.connected(now);
        boolean distrusted = life.mayHaveForeignRecords(now);
        markedNumber = distrusted ? NO_MARK : delivered;
        // Those that are taken over are unconfirmed until it is clear below what the broker has of them.
        List<OutgoingMessage> lost = buffer.lost(distrusted ? 0 : delivered);
        lost.addAll(0, formerLost(distrusted));
        endPredecessors(opened);
        if (!buffer.isEmpty()) {
            scheduleMark();
        }
        return lost;
    }

    /** Returns the messages of predecessors that the broker, or a session there, may have lost; confirms all others. */
    private List<OutgoingMessage> formerLost(boolean distrusted) {
        List<OutgoingMessage> found = new ArrayList<>();
        for (Predecessor each : predecessors) {
            for (OutgoingMessage message : each.messages()) {
                boolean lost = distrusted || each.isLost(message);
                if (lost || each.isRequested(message)) {
                    message.forSession = !lost;
                    found.add(message);
                } else {
                    buffer.confirmed(message);
                }
            }
        }
        return found;
    }

    /** Deletes the folders of earlier processes, once their messages are in the one of this process. */
    private void endPredecessors(Connection opened) {
        List<Predecessor> ended = List.copyOf(predecessors);
        predecessors.clear();
        Spool own = disk.current();
        if (!ended.isEmpty() && own != null) {
            Runtime.BACKGROUND.execute(() -> {
                if (own.force()) {
                    ended.stream().filter(each -> each.folder().deleteRead()).forEach(each -> each.mark().delete(opened));
                }
            });
        }
    }

    void disconnected() {
        connection = null;
        life.disconnected(System.nanoTime());
    }

    /**
     * Ends this publisher. Its mark is deleted, unless messages that the broker may not have saved stay on disk.
     *
     * @return the rest of the work, to be done without the lock
     */
    Runnable end() {
        ended = true;
        disk.end();
        buffer.end();
        Spool last = disk.current();
        boolean leaves = last != null && !buffer.isEmpty();
        if (leaves) {
            writeMark(); // the next process would send again what came after the former mark
        } else if (connection != null) {
            deliveryMark.delete(connection);
        }
        connection = null;
        List<SpoolFolder> others = List.copyOf(takenOver);
        return () -> {
            if (leaves) {
                last.leave();
            } else if (last != null) {
                last.delete();
            }
            others.forEach(SpoolFolder::release);
        };
    }

    // ---- answers of the broker ----

    /** Takes a mark from a message; false if the message is none. Lock not held. */
    boolean acceptMark(MqttPublishMessage packet) {
        return marks().stream().anyMatch(mark -> mark.accept(packet));
    }

    /** Returns the messages that a reader requests whose session was lost; none for a repeated request. */
    List<OutgoingMessage> requested(MqttPublishMessage request) {
        String filter = request.payload().toString(StandardCharsets.UTF_8);
        if (filter.isEmpty() || !handledRequests.add(request.variableHeader().topicName())) {
            return List.of();
        }
        if (handledRequests.size() > REQUESTS_REMEMBERED) {
            handledRequests.remove(handledRequests.iterator().next());
        }
        LOG.info("the broker lost a session that reads '{}'", filter);
        predecessors.forEach(each -> each.requested(filter));
        return buffer.again(message -> TopicFilter.matches(filter, message.topic));
    }

    /** Takes a report about the broker from a message; false if the message is none. */
    boolean acceptReport(MqttPublishMessage packet) {
        return life.accept(packet);
    }

    /** The broker has answered on the present connection. */
    void answered() {
        buffer.answered(System.nanoTime());
    }

    /** The broker refuses a message that was sent again. */
    void refused(OutgoingMessage message) {
        buffer.drop(message);
    }

    // ---- messages ----

    /** Holds a message that the broker has acknowledged. */
    void hold(OutgoingMessage message) {
        buffer.add(message);
        scheduleMark();
    }

    private void scheduleMark() {
        if (!markScheduled) {
            markScheduled = true;
            Runtime.LOOPS.schedule(this::mark, MARK_MILLIS, TimeUnit.MILLISECONDS);
        }
    }

    /** Writes the number of the last acknowledged message to the mark, and lets the held messages age by a ping. */
    private void mark() {
        lock.lock();
        try {
            writeMark();
            markScheduled = !ended && !buffer.isEmpty();
            if (markScheduled) {
                disk.tryAgain();
                Runtime.LOOPS.schedule(this::mark, MARK_MILLIS, TimeUnit.MILLISECONDS);
                if (connection != null) {
                    connection.ping();
                }
            }
        } finally {
            lock.unlock();
        }
    }

    private void writeMark() {
        if (connection != null && markedNumber != buffer.confirmedNumber()) {
            markedNumber = buffer.confirmedNumber();
            deliveryMark.write(connection, markedNumber);
        }
    }

    /**
     * Writes the mark once more, at the end of the process; without a connection, or messages held, there is nothing to
     * write.
     *
     * @return a future that completes when the broker has received the mark, or the connection has ended
     */
    CompletableFuture<Void> lastMark() {
        if (connection == null || buffer.isEmpty()) {
            return CompletableFuture.completedFuture(null);
        }
        writeMark();
        return connection.ping().exceptionally(lost -> null);
    }
}
