package io.speck.spark.mqtt;

import io.speck.mqtt.Received;
import io.speck.mqtt.failure.Cause;
import io.speck.mqtt.failure.LeftOut;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Leaves out the messages on which tasks of earlier runs of a real-time query failed.
 *
 * <p>A task works on one message at a time, so the message on which it failed is known. It may have another offset in the
 * next run, where repetitions came in between, so that it is known by its topic, key and content. Equal messages are
 * treated alike, until the batch of the failure is committed.
 *
 * <p>A message is left out once it has failed in two runs with the same error. If the error is one that a service which is
 * away may raise too ({@link Cause#CODE}), another message must have passed before it in the second of them, or a later one:
 * it is deferred until one has passed. If none comes for a second, a single such message is left out without that.
 *
 * <p>Thread-safe, but for {@link #admits}, {@link #triedAgain} and {@link #flush}, of which one thread at a time calls one.
 */
final class RealTimeFailures {
    private static final Logger LOG = LoggerFactory.getLogger(RealTimeFailures.class);
    private static final int FAILURES = 2;
    /** The time for which a deferred message waits for another one. */
    private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(1);
    private static final String SEPARATOR = "\n";

    /**
     * The failures of tasks on one message, as stored in a file beside the checkpoint.
     *
     * @param offset that it had last
     * @param reason the last error in one line
     * @param signature the same for the same error
     * @param run of the query in which it failed last
     * @param failures runs in which it failed in succession with this error
     * @param proven true if it is the cause of the error
     */
    record Failure(long offset, String reason, String signature, String run, int failures, boolean proven) {
        private static final int LINES = 6;

        boolean leavesOut() {
            return failures >= FAILURES && proven;
        }

        /**
         * This failure, after the former one of the same message.
         *
         * @param former null for none
         * @param passed true if another message passed before it in this run
         */
        Failure after(Failure former, boolean passed) {
            if (former == null || !former.signature.equals(signature)) {
                return this;
            }
            int all = former.run.equals(run) ? former.failures : former.failures + failures;
            return new Failure(offset, reason, signature, run, all, proven || former.proven || passed);
        }

        String text() {
            return String.join(SEPARATOR, Long.toString(offset), reason, signature, run, Integer.toString(failures),
                    Boolean.toString(proven));
        }

        /** Reads a text of {@link #text}; null for what a killed process left of one. */
        static Failure parse(String text) {
            String[] lines = text.split(SEPARATOR, -1);
            if (lines.length != LINES || !lines[5].equals("true") && !lines[5].equals("false")) {
                return null;
            }
            return new Failure(Long.parseLong(lines[0]), lines[1], lines[2], lines[3], Integer.parseInt(lines[4]),
                    Boolean.parseBoolean(lines[5]));
        }
    }

    private final FailedRanges files;
    private final LeftOut leftOut;
    private final Function<Received, String> fault;
    private final LongSupplier nanos;
    private final String run = UUID.randomUUID().toString();
    private final Deque<Received> deferred = new ArrayDeque<>();
    private long deferredNanos;
    /** By the digests of the messages; null before they are read. */
    private Map<String, Failure> known;
    /** True if a task works, or has worked, on a message of this run. */
    private boolean given;
    private volatile boolean passed;

    /**
     * @param fault the reason to leave a message out at once; null for none
     * @param nanos the time in nanoseconds, from any beginning
     */
    RealTimeFailures(FailedRanges files, LeftOut leftOut, Function<Received, String> fault, LongSupplier nanos) {
        this.files = files;
        this.leftOut = leftOut;
        this.fault = fault;
        this.nanos = nanos;
    }

    /** True if a task should work on the message now; it is left out otherwise, or deferred. */
    boolean admits(Received message) throws IOException, InterruptedException {
        String reason = fault.apply(message);
        if (reason != null) {
            leaveOut(message, reason);
            return false;
        }
        Failure failure = of(message);
        if (failure != null && failure.leavesOut()) {
            leaveOut(message, failure.reason());
            return false;
        }
        if (failure == null || failure.proven() || passed) {
            given = true;
            return true;
        }
        deferred.add(message);
        deferredNanos = nanos.getAsLong();
        return false;
    }

    boolean hasDeferred() {
        return !deferred.isEmpty();
    }

    /** Returns a deferred message that is to be tried again now; null for none. */
    Received triedAgain() throws IOException, InterruptedException {
        boolean waits = !passed && (given || nanos.getAsLong() - deferredNanos < PATIENCE_NANOS);
        if (deferred.isEmpty() || waits) {
            return null;
        }
        Received message = deferred.poll();
        Failure failure = of(message);
        if (!passed && deferred.isEmpty() && failure != null && failure.failures() >= FAILURES) {
            leaveOut(message, failure.reason());
            return null;
        }
        given = true;
        return message;
    }

    private void leaveOut(Received message, String reason) throws InterruptedException {
        LOG.warn("the code failed on message {} of topic '{}', which is left out: {}", message.offset(), message.topic(),
                reason);
        leftOut.add(message.topic(), message.payload(), message.key(), reason);
    }

    /** Notes that a message passed the code. */
    void passed() {
        if (!passed) { // for each message, a volatile read is cheaper than a write
            passed = true;
        }
    }

    /** Notes that a task failed, if the message that it was working on may be the cause. */
    synchronized void failed(Received message, Throwable error) throws IOException {
        TaskError found = TaskError.of(error);
        if (found.cause() == Cause.ELSEWHERE) {
            return;
        }
        boolean proven = found.cause() == Cause.MESSAGE;
        Failure failure = new Failure(message.offset(), found.reason(), found.signature(), run, 1, proven);
        String digest = digest(message);
        files.addMessage(digest, failure.after(known().get(digest), passed).text());
    }

    private synchronized Failure of(Received message) throws IOException {
        return known().isEmpty() ? null : known().get(digest(message));
    }

    private Map<String, Failure> known() throws IOException {
        if (known == null) {
            known = new HashMap<>();
            for (Map.Entry<String, String> each : files.messages().entrySet()) {
                Failure failure = Failure.parse(each.getValue());
                if (failure != null) {
                    known.put(each.getKey(), failure);
                }
            }
        }
        return known;
    }

    /** Forgets the failures of a committed batch. */
    synchronized void committed(long offset) throws IOException {
        for (Map.Entry<String, Failure> each : Map.copyOf(known()).entrySet()) {
            if (each.getValue().offset() < offset) {
                files.deleteMessage(each.getKey());
                known.remove(each.getKey());
            }
        }
    }

    /**
     * Waits until all that was left out is parked, at the end of a batch.
     *
     * @throws IllegalStateException if a message is deferred: the batch must be run again
     */
    void flush() throws InterruptedException {
        if (hasDeferred()) {
            throw new IllegalStateException("the batch ended before message " + deferred.peek().offset()
                    + ", on which the code had failed, could be tried again");
        }
        leftOut.flush();
        passed |= given; // in tasks that Spark ended by its clock
    }

    private static String digest(Received message) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            for (String each : new String[] {message.topic(), message.key() == null ? "" : message.key()}) {
                digest.update(each.getBytes(StandardCharsets.UTF_8));
                digest.update((byte) 0); // in no text of MQTT
            }
            return HexFormat.of().formatHex(digest.digest(message.payload()));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e); // every Java platform supports SHA-256
        }
    }
}
