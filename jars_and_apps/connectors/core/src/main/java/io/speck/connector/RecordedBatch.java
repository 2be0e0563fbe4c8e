package io.speck.connector;

import io.speck.connector.reader.BatchJournal;
import io.speck.connector.reader.KnownWriters;
import io.speck.connector.reader.Losses;
import io.speck.mqtt.BrokerException;
import io.speck.mqtt.DataLossException;
import io.speck.mqtt.Login;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.stamp.SeenStamps;
import java.io.IOException;

/** The record of a batch, from a broker of any kind. */
public interface RecordedBatch {
    /** The number of messages before the first one. */
    long start();

    /** The number of messages up to the last one. */
    long end();

    /** The number of parts that the engine split it into. */
    int parts();

    /** The session that it was received in. */
    String session();

    /** The address of its broker; empty if it is not known. */
    String broker();

    /** The stamps seen at its end. */
    SeenStamps seen();

    /** The writers known at its end. */
    KnownWriters writers();

    /**
     * Opens the session that a job has left, in order to complete this batch.
     *
     * @param settings of the reader of the present session
     * @param login at the broker of the batch
     * @throws BrokerException if the broker cannot be reached in time, or refuses the client
     * @throws DataLossException if the broker does not have the messages any more
     */
    FormerBatch reopen(SourceSettings settings, Login login, BatchJournal journal, Losses losses)
            throws IOException, InterruptedException;
}
