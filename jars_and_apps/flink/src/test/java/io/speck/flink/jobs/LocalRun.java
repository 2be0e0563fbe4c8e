package io.speck.flink.jobs;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.CloseableIterator;

/**
 * Runs what a program does on the messages of standard input, and writes what it would send to standard output; each
 * message is a line in Base64. Arguments: the program's name, and its site.
 */
public final class LocalRun {
    private static final long WINDOW = Interval.window("15 minutes");
    private static final long LATENESS = Interval.micros("2 days");
    private static final int SLOWEST = 3;
    private static final long AHEAD = Interval.micros("1 day");

    private LocalRun() {}

    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.setParallelism(1);
        DataStream<String> in = environment.fromData(messages());
        CloseableIterator<String> out = run(arguments[0], arguments[1], in).executeAndCollect();
        StringBuilder lines = new StringBuilder();
        out.forEachRemaining(text -> lines.append(Base64.getEncoder().encodeToString(
                text.getBytes(StandardCharsets.UTF_8))).append('\n'));
        out.close();
        System.out.print(lines);
    }

    private static List<String> messages() {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.ISO_8859_1));
        return lines.lines().map(line -> new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8))
                .collect(Collectors.toList());
    }

    private static DataStream<String> run(String program, String site, DataStream<String> in) {
        return switch (program) {
            case "Clean" -> Clean.clean(in.map(text -> text.getBytes(StandardCharsets.UTF_8)).returns(byte[].class))
                    .map(content -> new String(content, StandardCharsets.UTF_8)).returns(String.class);
            case "Forward" -> Forward.forward(in, site);
            case "LocalStats" -> statistics(site, in);
            case "GlobalStats" -> statistics("*", in);
            default -> throw new IllegalArgumentException(program);
        };
    }

    private static DataStream<String> statistics(String site, DataStream<String> in) {
        return new Statistics(site, WINDOW, LATENESS, SLOWEST, AHEAD).count(in).map(Statistics.WindowUpdate::object);
    }
}
