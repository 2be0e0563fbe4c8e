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

/** Checks the direction of imports between the packages that all connectors share. */
class PackagesTest {
    private static final String ROOT = "io.speck.mqtt";
    private static final String CONNECTOR = "io.speck.connector";
    private static final Set<String> SHARED =
            Set.of(ROOT, ROOT + ".stamp", CONNECTOR, CONNECTOR + ".reader", CONNECTOR + ".writer");
    private static final Map<String, Set<String>> ALLOWED = Map.of(
            ROOT, Set.of(ROOT + ".stamp"),
            ROOT + ".stamp", Set.of(),
            CONNECTOR + ".reader", Set.of(ROOT, ROOT + ".stamp"),
            CONNECTOR + ".writer", Set.of(),
            CONNECTOR, SHARED,
            CONNECTOR + ".probe", SHARED,
            ROOT + ".failure", SHARED);
    private static final Pattern USE = Pattern.compile("\\b(io\\.speck(?:\\.[a-z]+)*)\\.[A-Z]");

    @Test
    void importsPointDownwards() throws IOException {
        List<String> wrong = new ArrayList<>();
        try (Stream<Path> files = Files.walk(Path.of("src/main/java"))) {
            for (Path file : files.filter(each -> each.toString().endsWith(".java")).toList()) {
                String own = Path.of("src/main/java").relativize(file.getParent()).toString().replace('/', '.');
                Matcher uses = USE.matcher(Files.readString(file));
                while (uses.find()) {
                    if (!uses.group(1).equals(own) && !ALLOWED.get(own).contains(uses.group(1))) {
                        wrong.add(file.getFileName() + " uses " + uses.group(1));
                    }
                }
            }
        }
        assertEquals(List.of(), wrong);
    }
}
