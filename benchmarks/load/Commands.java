import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/** Reads one command a line from standard input, NAME KEY=VALUE ..., and answers each with one JSON object a line. */
final class Commands {
    /** Carries out a command with its options. */
    interface Command {
        String run(Map<String, String> options) throws Exception;
    }

    private Commands() {}

    static void serve(Map<String, Command> commands) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(commands, line.trim().split(" +")));
        }
    }

    private static String answer(Map<String, Command> commands, String[] words) {
        Map<String, String> options = new HashMap<>();
        for (String word : Arrays.asList(words).subList(1, words.length)) {
            String[] pair = word.split("=", 2);
            options.put(pair[0], pair[1]);
        }
        try {
            Command command = commands.get(words[0]);
            if (command == null) {
                throw new IllegalArgumentException("no such command: " + words[0]);
            }
            return command.run(options);
        } catch (Exception e) {
            return "{\"error\": \"" + e.toString().replaceAll("[\"\\\\\\p{Cntrl}]", "'") + "\"}";
        }
    }

    static int size(Map<String, String> options) {
        int size = Integer.parseInt(options.get("bytes"));
        if (size < Tally.HEAD) {
            throw new IllegalArgumentException("bytes=" + size + " (expected " + Tally.HEAD + " or more)");
        }
        return size;
    }
}
