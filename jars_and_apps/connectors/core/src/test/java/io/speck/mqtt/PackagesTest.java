package io.speck.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.speck.imports.ImportRules;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Set;
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

    @Test
    void importsPointDownwards() throws IOException {
        assertEquals(List.of(), ImportRules.violations(Set.of(), ALLOWED));
    }
}
