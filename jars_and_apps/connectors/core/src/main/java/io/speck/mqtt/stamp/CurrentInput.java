package io.speck.mqtt.stamp;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.function.BooleanSupplier;

/**
 * The message that a thread is working on, for jobs in which a source, the operators after it, and a sink run in one
 * thread, message by message. The source names the message, and the sink derives the stamps of its outputs from it.
 *
 * <p>A derived stamp depends on the input and on the index of the output among the outputs of that input. So it does
 * not depend on the order in which messages arrive, on batches, parallelism, or other code before or after.
 *
 * <p>A message without a stamp is named after its position in the session of its source, and a hash of its content.
 */
public final class CurrentInput {
    private static final ThreadLocal<CurrentInput> OF_THREAD = ThreadLocal.withInitial(CurrentInput::new);
    private static final int MOST_RUNS = 1000;
    private static final byte[] DOT = {'.'};
    private static final BooleanSupplier NEVER = () -> false;
    /** Behind all messages. */
    private static final long NOT_HELD = Long.MAX_VALUE;

    private record Way(String job, String run, int source, String path, boolean fingerprint) {}

    private final Map<Way, String> derivedRuns = new HashMap<>();
    private boolean present;
    private boolean aside;
    private Stamp stamp;
    private int source;
    private long offset;
    private long hash;
    private int outputs;
    private BooleanSupplier waiting = NEVER;
    private long held = NOT_HELD;

    /** The last stamp that was derived from, with its source, and what all outputs of its stream have in common. */
    private Stamp named;
    private int namedSource;
    private String derivedRun;
    private byte[] derivedPath;
    private byte[] derivedPrefix;

    /** The last run and source of outputs of messages without a stamp, and the prefix of their sequences. */
    private String ownRun;
    private int ownSource;
    private byte[] ownPrefix;

    private CurrentInput() {}

    public static CurrentInput ofThread() {
        return OF_THREAD.get();
    }

    /**
     * Begins the work on a message.
     *
     * @param stamp its stamp; null for none
     * @param source number of its source among those of the job
     * @param offset its position in the session of that source
     * @param hash hash of its content
     */
    public void begin(Stamp stamp, int source, long offset, int hash) {
        this.present = true;
        this.stamp = stamp;
        this.source = source;
        this.offset = offset;
        this.hash = Integer.toUnsignedLong(hash);
        this.outputs = 0;
        this.waiting = NEVER;
    }

    /**
     * Allows outputs of the message to wait, if later messages of the source follow in this thread. They are named after
     * the message with which they are written, so neither this message nor the next one may have a stamp.
     *
     * @param allowed asked by an operator that lets outputs wait
     */
    public void mayWait(BooleanSupplier allowed) {
        waiting = allowed;
    }

    /** True if outputs of the message may be written with those of a later one. */
    public boolean mayWait() {
        return present && waiting.getAsBoolean();
    }

    /** Notes if outputs of the message wait, or may be missing among others that wait. */
    public void hold(boolean waits) {
        held = !waits ? NOT_HELD : held == NOT_HELD ? offset : held;
    }

    /** Returns the position of the first message that has to be read again as long as outputs wait. */
    public long heldFrom() {
        return held;
    }

    /** Ends the work on the message: what is written from now on comes from no message. */
    public void end() {
        present = false;
        stamp = null;
    }

    /** True if this thread is working on a message. */
    public boolean present() {
        return present;
    }

    /** Runs a step whose outputs come from no message, in the midst of the work on one. */
    public void aside(Runnable step) {
        aside = true;
        try {
            step.run();
        } finally {
            aside = false;
        }
    }

    /** True within {@link #aside}. */
    public boolean isAside() {
        return aside;
    }

    /**
     * Returns the sequence (see {@link Stamp}) of the next output of the message.
     *
     * @param run the run in the stamps of outputs of messages without a stamp
     * @throws IllegalStateException if this thread is working on no message
     */
    public byte[] nextSequence(String run) {
        if (!present) {
            throw new IllegalStateException("an element came to the mqtt sink from no message of an mqtt source"
                    + " in the same thread, so that its stamp cannot be derived");
        }
        int output = outputs++;
        if (stamp == null) {
            return SequenceBytes.derived(ownPrefix(run), offset, DOT, output, hash);
        }
        if (named == null || namedSource != source || !named.sameStream(stamp)) {
            derivedRun = derivedRun();
            derivedPath = ascii("." + stamp.derivedPath());
            derivedPrefix = null;
        }
        if (derivedPrefix == null || named.epoch() != stamp.epoch()) {
            derivedPrefix = ascii(Stamp.prefix(derivedRun, stamp.partition(), stamp.epoch()));
        }
        named = stamp;
        namedSource = source;
        return SequenceBytes.derived(derivedPrefix, stamp.index(), derivedPath, output, stamp.fingerprint());
    }

    /** Returns the prefix of the outputs of messages without a stamp. */
    private byte[] ownPrefix(String run) {
        if (ownPrefix == null || ownSource != source || !run.equals(ownRun)) {
            ownPrefix = ascii(Stamp.prefix(run, source, 0));
            ownSource = source;
            ownRun = run;
        }
        return ownPrefix;
    }

    private static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }

    private String derivedRun() {
        if (derivedRuns.size() > MOST_RUNS) {
            derivedRuns.clear();
        }
        Way way = new Way(stamp.job(), stamp.run(), source, stamp.foldedPath(), stamp.hasFingerprint());
        return derivedRuns.computeIfAbsent(way, each -> stamp.derivedRun(source));
    }
}
