package io.speck.mqtt.failure;

import io.speck.connector.BrokerProvider;
import io.speck.connector.Brokers;
import io.speck.connector.MessageSink;
import io.speck.connector.writer.AckMetrics;
import io.speck.connector.writer.RefusedMessage;
import io.speck.connector.writer.UnsentMessage;
import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.Login;
import io.speck.mqtt.SinkSettings;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * A writer that leaves out what cannot be written, if the job is not to fail: a message that is too large for the broker
 * or has a content, key or topic which is never accepted. A refusal of a whole topic, as for a missing right, fails the
 * job with any treatment: all further results would be left out too.
 *
 * <p>Not thread-safe.
 */
public final class OnErrorSink implements AutoCloseable {
    /**
     * The settings of the writer.
     *
     * @param sink broker, login and time-out of the results
     * @param onError treatment of a result that cannot be written
     * @param parking login at the broker of the parking topic; null unless results are parked
     */
    public record Settings(SinkSettings sink, OnError onError, Login parking) implements Serializable {
        /** Settings with which the job fails. */
        public static Settings failing(SinkSettings sink) {
            return new Settings(sink, OnError.FAIL, null);
        }
    }

    private final Settings settings;
    private final MessageSink sink;
    private final LeftOut leftOut;
    /** Results that another writer is to park, up to a limit. */
    private final List<RefusedMessage> unparked = new ArrayList<>();
    private final long mostUnparkedBytes;
    private long unparkedBytes;

    /**
     * @throws io.speck.mqtt.BrokerException if the broker cannot be reached within the flush time-out, or refuses the
     *     client
     */
    public OnErrorSink(Settings settings) throws InterruptedException {
        this(settings, Brokers.of(settings.sink().login()).sink(settings.sink(), !settings.onError().fails()), 0);
    }

    private OnErrorSink(Settings settings, MessageSink sink, long mostUnparkedBytes) {
        this.settings = settings;
        this.sink = sink;
        this.mostUnparkedBytes = mostUnparkedBytes;
        this.leftOut = new LeftOut(settings.onError(),
                new SinkSettings(settings.parking(), settings.sink().flushTimeout()).withSpool(settings.sink().spool()));
    }

    /**
     * Creates a writer as {@link BrokerProvider#offeringSink} does.
     *
     * @param mostUnparkedBytes the memory of results that it returns by {@link #takeUnparked} and does not park itself,
     *     since that may take for as long as the broker of the parking topic is away
     */
    public static OnErrorSink offering(Settings settings, long mostUnparkedBytes) throws InterruptedException {
        BrokerProvider brokers = Brokers.of(settings.sink().login());
        return new OnErrorSink(settings, brokers.offeringSink(settings.sink(), !settings.onError().fails()),
                mostUnparkedBytes);
    }

    private interface Sending {
        int run() throws InterruptedException;
    }

    /** As {@link MessageSink#send(String, byte[], byte[], byte[], byte[])}; 0 for a message that is left out at once. */
    public int send(String topic, byte[] payload, byte[] key, byte[] job, byte[] sequence) throws InterruptedException {
        return treated(topic, payload, key, () -> sink.send(topic, payload, key, job, sequence));
    }

    /** As {@link MessageSink#offer}; 0 for a message that is left out at once. */
    public int offer(String topic, byte[] payload, byte[] key, byte[] job, byte[] sequence)
            throws InterruptedException {
        return treated(topic, payload, key, () -> sink.offer(topic, payload, key, job, sequence));
    }

    private int treated(String topic, byte[] payload, byte[] key, Sending sending) throws InterruptedException {
        int size = 0;
        try {
            size = sending.run();
        } catch (InvalidSettingException e) {
            leaveOut(topic, payload, key, e);
        }
        leaveOutRefused();
        return size;
    }

    /** Leaves out a message that no broker accepts, by the rules of the protocol. */
    private void leaveOut(String topic, byte[] payload, byte[] key, InvalidSettingException fault)
            throws InterruptedException {
        if (settings.onError().fails()) {
            throw fault;
        }
        leaveOut(new RefusedMessage(topic, payload, key, Map.of(), -1, fault.getMessage()));
    }

    private void leaveOut(RefusedMessage result) throws InterruptedException {
        boolean parks = settings.onError().treatment() == OnError.Treatment.PARK;
        if (parks && unparkedBytes + result.bytes() <= mostUnparkedBytes) {
            unparked.add(result);
            unparkedBytes += result.bytes();
        } else {
            leftOut.addResult(result);
        }
    }

    /** Returns the results that another writer is to {@link #park}, and begins anew. */
    public List<RefusedMessage> takeUnparked() {
        List<RefusedMessage> taken = List.copyOf(unparked);
        unparked.clear();
        unparkedBytes = 0;
        return taken;
    }

    /** Parks results that another writer has returned; {@link #flush} waits until they are. */
    public void park(List<RefusedMessage> results) throws InterruptedException {
        for (RefusedMessage each : results) {
            leftOut.addResult(each);
        }
    }

    /** Leaves out what the broker has refused by now, so that it does not collect in memory until the flush. */
    private void leaveOutRefused() throws InterruptedException {
        if (sink.hasRefused()) {
            for (RefusedMessage each : sink.takeRefused()) {
                leaveOut(each);
            }
        }
    }

    /** See {@link MessageSink#sendSoon}. */
    public void sendSoon() {
        sink.sendSoon();
    }

    /**
     * Waits until the broker has acknowledged all messages, or they are left out, and parked.
     *
     * @throws io.speck.mqtt.BrokerException if it did not within the flush time-out, or refuses a topic
     */
    public void flush() throws InterruptedException {
        sink.flush();
        flushLeftOut();
    }

    /**
     * As {@link #flush}, but returns what the broker has not taken as soon as it is away, see {@link MessageSink}; then
     * {@link #takeUnparked} has what is to be parked.
     */
    public List<UnsentMessage> flushUnlessAway() throws InterruptedException {
        List<UnsentMessage> unsent = sink.flushUnlessAway();
        flushLeftOut();
        return unsent;
    }

    private void flushLeftOut() throws InterruptedException {
        leaveOutRefused();
        leftOut.flush();
    }

    /** See {@link MessageSink#acks}. */
    public AckMetrics acks() {
        return sink.acks();
    }

    /** The results left out and not parked, since this writer was made. */
    public long skipped() {
        return leftOut.skipped();
    }

    /** The results left out and parked, since this writer was made. */
    public long parked() {
        return leftOut.parked();
    }

    @Override
    public void close() {
        leftOut.close();
        sink.close();
    }
}
