package io.speck.spark.mqtt;

import io.speck.connector.Brokers;
import io.speck.mqtt.Login;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.failure.OnError;
import io.speck.mqtt.failure.OnErrorSink;
import java.io.Serializable;
import java.time.Duration;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.RuntimeConfig;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The options of the sink.
 *
 * @param sink broker, login and time-out, and the treatment of rows that cannot be written
 * @param topic topic of rows without a topic of their own; null for none
 * @param job name for the stamps; null for messages without stamps
 * @param incarnation lineage for the stamps; null to take it from the query's checkpoint
 * @param incarnationNumber the number of the lineage's present form, in counted stamps; 0 for none
 * @param originNumber the number of the present count of input positions, in derived stamps; 0 for none
 * @param order "input", "value", or null to sort rows with stamps, and the rows of a complete result
 */
record WriteOptions(OnErrorSink.Settings sink, String topic, String job, String incarnation, long incarnationNumber,
        long originNumber, String order)
        implements Serializable {
    static final Set<String> NAMES = names();

    private static Set<String> names() {
        Set<String> names = new HashSet<>(OptionReader.LOGIN);
        names.addAll(OptionReader.PARKING);
        names.addAll(Set.of("topic", "job", "incarnation", "incarnationNumber", "originNumber", "order", "flushTimeout",
                "onError", "parkTopic", "retain"));
        return Set.copyOf(names);
    }

    /**
     * Reads the options; a coordinator gives the numbers by settings of the session, which older connectors ignore.
     *
     * @throws io.speck.mqtt.InvalidSettingException naming every fault
     */
    static WriteOptions parse(CaseInsensitiveStringMap options, RuntimeConfig session) {
        OptionReader reader = new OptionReader("sink", options, NAMES);
        SinkSettings sink = new SinkSettings(reader.login(), reader.duration("flushTimeout", Duration.ofSeconds(60)),
                reader.flag("retain", false));
        OnError onError = reader.onError();
        Login parking = onError.parkTopic() == null ? null : reader.parkingLogin();
        WriteOptions parsed = new WriteOptions(
                new OnErrorSink.Settings(sink, onError, parking),
                reader.parsed("topic", Brokers.of(sink.login())::checkTopic, null),
                reader.parsed("job", SinkSettings::job, null),
                reader.parsed("incarnation", SinkSettings::incarnation, null),
                reader.number("incarnationNumber", number(session, "spark.speck.incarnation"), 0, Long.MAX_VALUE),
                reader.number("originNumber", number(session, "spark.speck.origin"), 0, Long.MAX_VALUE),
                reader.choice("order", null, "input", "value"));
        reader.done();
        return parsed;
    }

    /** The same with a folder for messages that the broker may not have saved; null for none. */
    WriteOptions spool(String folder) {
        OnErrorSink.Settings durable =
                new OnErrorSink.Settings(sink.sink().withSpool(folder), sink.onError(), sink.parking());
        return new WriteOptions(durable, topic, job, incarnation, incarnationNumber, originNumber, order);
    }

    private static long number(RuntimeConfig session, String setting) {
        return Long.parseLong(session.get(setting, "0"));
    }

}
