package io.speck.mqtt;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

/** The messages that the processes of a site have on disk. */
public final class Spooled {
    private Spooled() {}

    /** Waits until a message on disk below a folder contains a text. */
    public static void await(Path folder, String text) {
        Await.until("'" + text + "' in a message on disk", () -> has(folder, text));
    }

    private static boolean has(Path folder, String text) throws IOException {
        if (!Files.isDirectory(folder)) {
            return false;
        }
        List<Path> segments;
        try (Stream<Path> found = Files.walk(folder)) {
            segments = found.filter(each -> each.toString().endsWith(".log")).toList();
        }
        for (Path each : segments) {
            if (new String(Files.readAllBytes(each), StandardCharsets.ISO_8859_1).contains(text)) {
                return true;
            }
        }
        return false;
    }
}
