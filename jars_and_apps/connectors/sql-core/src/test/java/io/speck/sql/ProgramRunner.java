package io.speck.sql;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Runs programs for the comparison with {@code speck.sql.evaluate}, which starts it from Python. A line of input is
 * {@code {"program": TEXT, "messages": [[TOPIC, BASE64], ...]}}; the line of output for it is {@code {"messages": [TEXT,
 * ...], "unparsable": [[INDEX, REASON], ...]}}. All windows stay open to the end.
 */
public final class ProgramRunner {
    private ProgramRunner() {}

    public static void main(String[] arguments) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(run((Map<?, ?>) JsonParser.parse(line)));
        }
    }

    private static String run(Map<?, ?> order) {
        SqlProgram program = SqlProgram.of((String) order.get("program"));
        List<Object[]> rows = new ArrayList<>();
        List<String> reasons = new ArrayList<>();
        int index = 0;
        for (Object each : (List<?>) order.get("messages")) {
            List<?> message = (List<?>) each;
            try {
                Object[] row = program.row((String) message.get(0), Base64.getDecoder().decode((String) message.get(1)));
                if (row != null) {
                    rows.add(row);
                }
            } catch (UnparsableMessageException e) {
                reasons.add("[" + index + "," + text(e.getMessage()) + "]");
            }
            index++;
        }
        List<String> found = new ArrayList<>();
        for (Object[] row : program.windows() == null ? rows : windowed(program.windows(), rows)) {
            String result = program.result(row);
            if (result != null) {
                found.add(text(result));
            }
        }
        return "{\"messages\":[" + String.join(",", found) + "],\"unparsable\":[" + String.join(",", reasons) + "]}";
    }

    private static List<Object[]> windowed(SqlProgram.Windows windows, List<Object[]> rows) {
        Map<Object[], Object[]> groups = new TreeMap<>(ProgramRunner::compare);
        int keys = windows.keys().size();
        for (Object[] row : rows) {
            long last = Math.floorDiv((Long) row[0], windows.slideMillis()) * windows.slideMillis();
            for (long start = last; start > last - windows.sizeMillis(); start -= windows.slideMillis()) {
                Object[] group = new Object[keys + 2];
                group[0] = start;
                group[1] = start + windows.sizeMillis();
                System.arraycopy(row, 1, group, 2, keys);
                Object[] totals = groups.computeIfAbsent(group,
                        any -> windows.merges().stream().map(Merge::begin).toArray());
                for (int at = 0; at < totals.length; at++) {
                    totals[at] = windows.merges().get(at).with(totals[at], row[keys + 1 + at]);
                }
            }
        }
        List<Object[]> found = new ArrayList<>();
        groups.forEach((group, totals) -> {
            Object[] row = Arrays.copyOf(group, group.length + totals.length);
            System.arraycopy(totals, 0, row, group.length, totals.length);
            found.add(row);
        });
        return found;
    }

    /** Compares keys; null comes first. */
    private static int compare(Object[] one, Object[] other) {
        for (int at = 0; at < one.length; at++) {
            boolean none = one[at] == null || other[at] == null;
            int found = none ? Boolean.compare(one[at] != null, other[at] != null)
                    : Expression.compare(one[at], other[at]);
            if (found != 0) {
                return found;
            }
        }
        return 0;
    }

    private static String text(String text) {
        return new RowEncoder("json", List.of(new Column("x", "string", true, "", 0)))
                .text(new Object[] {text}).replaceFirst("^\\{\"x\":", "").replaceFirst("}$", "");
    }
}
