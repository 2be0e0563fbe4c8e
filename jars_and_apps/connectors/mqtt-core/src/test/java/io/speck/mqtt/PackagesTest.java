package io.speck.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.speck.imports.ImportRules;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Set;
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

    @Test
    void importsPointDownwards() throws IOException {
        assertEquals(List.of(), ImportRules.violations(SHARED, ALLOWED));
    }
}
