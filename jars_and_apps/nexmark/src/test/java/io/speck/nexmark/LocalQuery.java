package io.speck.nexmark;

import io.speck.mqtt.Received;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.CloseableIterator;

/** Runs parts of queries on lists of lines in this process, without brokers. */
final class LocalQuery {
    private LocalQuery() {}

    /** Runs a part on the lines of some topics, which come one topic after the other; returns all that it sends. */
    static List<String> run(String part, Map<String, List<String>> topics) throws Exception {
        return run(part, topics, topics.size());
    }

    static List<String> run(String part, Map<String, List<String>> topics, int streams) throws Exception {
        List<Received> messages = new ArrayList<>();
        topics.forEach((topic, lines) -> lines.forEach(
                line -> messages.add(new Received(topic, line.getBytes(StandardCharsets.UTF_8), null, 0))));
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.setParallelism(1);
        DataStream<Received> source = environment.fromData(messages, Types.POJO(Received.class));
        List<String> sent = new ArrayList<>();
        CloseableIterator<String> rows = Query.PARTS.get(part).of(new Events(source, streams, 1)).executeAndCollect();
        rows.forEachRemaining(sent::add);
        rows.close();
        return sent;
    }
}
