package io.speck.spark.mqtt;

import io.speck.connector.Brokers;
import io.speck.mqtt.Login;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.failure.OnError;
import java.time.Duration;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The options of the source.
 *
 * @param source settings of the reader
 * @param maxRows largest number of rows of a batch
 * @param partitions largest number of input partitions of a batch; 0 for the session's default parallelism
 * @param pacing time to gather rows before a batch closes
 * @param columns the columns of the rows
 * @param onError treatment of messages on which the query fails
 * @param program the program of a SQL job, which checks the messages before a batch; null for another query
 */
record ReadOptions(SourceSettings source, long maxRows, int partitions, Pacing.Settings pacing, RowColumns columns,
        OnError onError, String program) {
    static final Set<String> NAMES = names();
    private static final long MEBIBYTE = 1L << 20;

    private static Set<String> names() {
        Set<String> names = new HashSet<>(OptionReader.LOGIN);
        names.addAll(Set.of("topic", "clientId", "receiveMaximum", "bufferMegabytes", "maxRowsPerBatch", "partitions",
                "fenceTopic", "attempt", "failOnDataLoss", "connectTimeout", "maxDelay", "lingerRatio", "idleWait",
                "quietTime", "valueType", "metadata", "onError", "parkTopic", "job", "controlTopic", "program",
                "decoded"));
        return Set.copyOf(names);
    }

    /** @throws io.speck.mqtt.InvalidSettingException naming every fault */
    static ReadOptions parse(CaseInsensitiveStringMap options) {
        OptionReader reader = new OptionReader("source", options, NAMES);
        SourceSettings source = source(reader);
        OnError onError = reader.onError();
        ReadOptions parsed = new ReadOptions(
                source,
                reader.number("maxRowsPerBatch", Math.max(1, source.receiveMaximum() / 2), 1, Integer.MAX_VALUE),
                (int) reader.number("partitions", 0, 1, 10_000),
                new Pacing.Settings(
                        reader.duration("idleWait", Duration.ofSeconds(1)),
                        reader.duration("maxDelay", Duration.ofSeconds(3)),
                        reader.ratio("lingerRatio", 0.5, 100),
                        reader.duration("quietTime", Duration.ofSeconds(1))),
                columns(reader, onError),
                onError,
                reader.text("program", null));
        reader.done();
        return parsed;
    }

    private static SourceSettings source(OptionReader reader) {
        Login login = reader.login();
        reader.required("topic", "the topic or topic filter to read");
        reader.required("clientId", "the name of the persistent session at the broker; one for each query");
        String fence = reader.text("fenceTopic", null);
        long attempt = reader.number("attempt", -1, 0, Long.MAX_VALUE);
        if ((fence == null) != (attempt < 0)) {
            reader.fault("options 'fenceTopic' and 'attempt' belong together");
        }
        return new SourceSettings(
                login,
                reader.parsed("clientId", SourceSettings::clientId, null),
                reader.parsed("topic", Brokers.of(login)::checkFilter, null),
                (int) reader.number("receiveMaximum", SourceSettings.LARGEST_RECEIVE_MAXIMUM, 1,
                        SourceSettings.LARGEST_RECEIVE_MAXIMUM),
                reader.number("bufferMegabytes", 32, 1, 4096) * MEBIBYTE,
                fence, attempt,
                reader.flag("failOnDataLoss", true),
                reader.duration("connectTimeout", Duration.ofSeconds(30)),
                reader.parsed("controlTopic", SourceSettings::filter, null));
    }

    private static RowColumns columns(OptionReader reader, OnError onError) {
        boolean binary = reader.choice("valueType", "string", "string", "binary").equals("binary");
        boolean decoded = reader.flag("decoded", false);
        if (decoded && (!binary || reader.text("program", null) == null || onError.fails())) {
            reader.fault("option 'decoded' needs valueType 'binary', onError 'skip' or 'park', and a 'program'");
        }
        return new RowColumns(binary, reader.flag("metadata", false), decoded);
    }
}
