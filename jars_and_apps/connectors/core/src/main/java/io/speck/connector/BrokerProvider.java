package io.speck.connector;

import io.speck.connector.reader.BatchJournal;
import io.speck.mqtt.BrokerAddress;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.SourceSettings;
import java.io.IOException;

/** A kind of broker, found by {@link java.util.ServiceLoader}. */
public interface BrokerProvider {
    /** True for the addresses of this kind. */
    boolean serves(BrokerAddress address);

    /** Creates a reader for an engine that works in batches. */
    MessageSource batches(SourceSettings settings, BatchJournal journal);

    /**
     * Creates a reader that returns each message once, as it arrives. It has no uncommitted batch after a restart:
     * messages taken after the offset at which it opens are returned again like new ones.
     */
    MessageSource streaming(SourceSettings settings, BatchJournal journal);

    /**
     * Returns the record of a batch; null for one of a broker of another kind.
     *
     * @throws IOException if it is not a whole record of a known version
     */
    RecordedBatch recorded(byte[] record) throws IOException;

    /**
     * Creates a writer.
     *
     * @param lenient true to collect messages that the broker never accepts ({@link MessageSink#takeRefused}), and not to
     *     fail
     * @throws BrokerException if the broker cannot be reached within the flush time-out, or refuses the client
     */
    MessageSink sink(SinkSettings settings, boolean lenient) throws InterruptedException;

    /**
     * Creates a writer whose messages are offered ({@link MessageSink#offer}), and which does not wait for its broker here.
     *
     * @param lenient as for {@link #sink}
     */
    default MessageSink offeringSink(SinkSettings settings, boolean lenient) throws InterruptedException {
        return sink(settings, lenient);
    }

    /** Sends in the background what earlier processes left on disk for this broker; for a process that may never write. */
    void takeOver(SinkSettings settings);

    /**
     * Returns the name if messages can be published to it.
     *
     * @throws InvalidSettingException otherwise
     */
    String checkTopic(String name);

    /**
     * Returns the topic, or topic filter, if a reader can read it.
     *
     * @throws InvalidSettingException otherwise
     */
    String checkFilter(String filter);

    /**
     * Returns the cores of the event loop that all connections of this process share, per root of the messages/s in and
     * out; -1 while it is not known, and for a kind without one.
     */
    default double eventLoop() {
        return -1;
    }

    /** Ends all connections and threads permanently, for a process that drops this library. */
    void stop();
}
