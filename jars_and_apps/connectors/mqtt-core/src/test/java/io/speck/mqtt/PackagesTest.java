package io.speck.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Checks the direction of imports between the packages of the client. */
class PackagesTest {
    private static final String ROOT = "io.speck.mqtt";
    private static final String CONNECTOR = "io.speck.connector";
    private static final Set<String> SHARED =
            Set.of(ROOT, ROOT + ".stamp", CONNECTOR, CONNECTOR + ".reader", CONNECTOR + ".writer");
    private static final Map<String, Set<String>> ALLOWED = Map.of(
            ROOT + ".net", Set.of(),
            ROOT + ".reader", Set.of(ROOT + ".net"),
            ROOT + ".writer", Set.of(ROOT + ".net"),
            ROOT + ".provider", Set.of(ROOT + ".net", ROOT + ".reader", ROOT + ".writer"));
    private static final Pattern USE = Pattern.compile("\\b(io\\.speck(?:\\.[a-z]+)*)\\.[A-Z]");

    @Test
    void importsPointDownwards() throws IOException {
        List<String> wrong = new ArrayList<>();
        try (Stream<Path> files = Files.walk(Path.of("src/main/java"))) {
            for (Path file : files.filter(each -> each.toString().endsWith(".java")).toList()) {
                String own = Path.of("src/main/java").relativize(file.getParent()).toString().replace('/', '.');
                Matcher uses = USE.matcher(Files.readString(file));
                while (uses.find()) {
                    String used = uses.group(1);
                    if (!used.equals(own) && !SHARED.contains(used) && !ALLOWED.get(own).contains(used)) {
                        wrong.add(file.getFileName() + " uses " + used);
                    }
                }
            }
        }
        assertEquals(List.of(), wrong);
    }
}
