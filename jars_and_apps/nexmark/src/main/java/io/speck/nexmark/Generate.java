package io.speck.nexmark;

import io.speck.nexmark.Generator.Event;
import java.io.BufferedOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;

/**
 * Writes the events of a {@link Generator} to standard output, in the order of their times: {@code TOPIC LINE} each,
 * the topic {@code nexmark/person/EDGE}, {@code nexmark/auction/EDGE} or {@code nexmark/bid/EDGE}, edges from {@code a}. In
 * the end each topic gets the mark {@code W} of the end.
 *
 * <p>Arguments, as pairs: {@code --seed} (1), {@code --start} (time of the first event in milliseconds since 1970, 0),
 * {@code --rate} (events a second of all edges, 4000), {@code --events} (10000), {@code --edges} (2).
 */
public final class Generate {
    private static final Map<Character, String> TOPICS =
            Map.of(Line.PERSON, "person", Line.AUCTION, "auction", Line.BID, "bid");

    private Generate() {}

    public static void main(String[] arguments) {
        Map<String, String> options = new TreeMap<>(Map.of("--seed", "1", "--start", "0", "--rate", "4000",
                "--events", "10000", "--edges", "2"));
        for (int each = 0; each < arguments.length; each += 2) {
            if (!options.containsKey(arguments[each]) || each + 1 == arguments.length) {
                throw new IllegalArgumentException("'" + arguments[each] + "' (expected pairs of "
                        + String.join(", ", options.keySet()) + " and a value)");
            }
            options.put(arguments[each], arguments[each + 1]);
        }
        Generator generator = new Generator(Long.parseLong(options.get("--seed")),
                Long.parseLong(options.get("--start")), Double.parseDouble(options.get("--rate")));
        write(generator, Long.parseLong(options.get("--events")), Integer.parseInt(options.get("--edges")));
    }

    private static void write(Generator generator, long events, int edges) {
        try (PrintStream out = new PrintStream(new BufferedOutputStream(System.out), false, StandardCharsets.US_ASCII)) {
            for (long number = 0; number < events; number++) {
                Event event = generator.event(number, edges);
                out.print(topic(TOPICS.get(Line.kind(event.line())), event.edge()) + " " + event.line() + "\n");
            }
            for (String topic : TOPICS.values()) {
                for (int edge = 0; edge < edges; edge++) {
                    out.print(topic(topic, edge) + " " + Line.progress(Line.END) + "\n");
                }
            }
        }
    }

    private static String topic(String kind, int edge) {
        return "nexmark/" + kind + "/" + (char) ('a' + edge);
    }
}
