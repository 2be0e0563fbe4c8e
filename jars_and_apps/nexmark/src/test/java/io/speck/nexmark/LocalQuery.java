package io.speck.nexmark;

import io.speck.mqtt.Received;
import io.speck.nexmark.Generator.Event;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.CloseableIterator;

/** Runs parts of queries on lists of lines in this process, without brokers. */
final class LocalQuery {
    private LocalQuery() {}

    /** The lines of each topic, in the order of their times, with the mark of the end. */
    static Map<String, List<String>> topics(Generator generator, int events) {
        Map<Character, String> names = Map.of(Line.PERSON, "person", Line.AUCTION, "auction", Line.BID, "bid");
        Map<String, List<String>> topics = new TreeMap<>();
        for (int number = 0; number < events; number++) {
            Event event = generator.event(number, 2);
            String topic = names.get(Line.kind(event.line())) + "/" + (char) ('a' + event.edge());
            topics.computeIfAbsent(topic, any -> new ArrayList<>()).add(event.line());
        }
        topics.values().forEach(lines -> lines.add(Line.progress(Line.END)));
        return topics;
    }

    /** Runs a part on the lines of some topics, which come one topic after the other; returns all that it sends. */
    static List<String> run(String part, Map<String, List<String>> topics) throws Exception {
        List<Received> messages = new ArrayList<>();
        topics.forEach((topic, lines) -> lines.forEach(
                line -> messages.add(new Received(topic, line.getBytes(StandardCharsets.UTF_8), null, 0))));
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.setParallelism(1);
        DataStream<Received> source = environment.fromData(messages, Types.POJO(Received.class));
        List<String> sent = new ArrayList<>();
        try (CloseableIterator<String> rows =
                Query.PARTS.get(part).of(new Events(source, topics.size(), 1)).executeAndCollect()) {
            rows.forEachRemaining(sent::add);
        }
        return sent;
    }

    /** The rows, sorted, without marks of progress. */
    static List<String> rows(List<String> sent) {
        return sent.stream().filter(line -> !Line.is(line, Line.PROGRESS)).sorted().collect(Collectors.toList());
    }
}
