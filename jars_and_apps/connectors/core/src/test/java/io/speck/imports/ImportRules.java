package io.speck.imports;

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

/** The rules for imports between the packages of a module, in whose folder the tests run. */
public final class ImportRules {
    private static final Path SOURCES = Path.of("src/main/java");
    private static final Pattern USE = Pattern.compile("\\b(io\\.speck(?:\\.[a-z]+)*)\\.[A-Z]");

    private ImportRules() {}

    /**
     * Returns the uses of a package that are not allowed, as {@code FILE uses PACKAGE}.
     *
     * @param shared the packages that all may use
     * @param allowed the packages that each package may use besides; it has all packages of the module
     */
    public static List<String> violations(Set<String> shared, Map<String, Set<String>> allowed) throws IOException {
        List<String> wrong = new ArrayList<>();
        try (Stream<Path> files = Files.walk(SOURCES)) {
            for (Path file : files.filter(each -> each.toString().endsWith(".java")).toList()) {
                String own = SOURCES.relativize(file.getParent()).toString().replace('/', '.');
                Matcher uses = USE.matcher(Files.readString(file));
                while (uses.find()) {
                    String used = uses.group(1);
                    if (!used.equals(own) && !shared.contains(used) && !allowed.get(own).contains(used)) {
                        wrong.add(file.getFileName() + " uses " + used);
                    }
                }
            }
        }
        return wrong;
    }
}
