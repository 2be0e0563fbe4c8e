package io.speck.spark.mqtt;

import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.Login;
import io.speck.mqtt.LoginFields;
import io.speck.mqtt.NearestName;
import io.speck.mqtt.TlsFiles;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Reads the options of a source or sink, and gathers all their faults before it complains. */
final class OptionReader {
    static final Set<String> LOGIN = Set.of("brokerUrl", "username", "password", "passwordFile", "caFile",
            "certificateFile", "keyFile");
    /** Spark itself puts these among the options. */
    private static final Set<String> SPARKS_OWN = Set.of("checkpointlocation", "path", "queryname", "header");
    private static final Pattern DURATION = Pattern.compile("(\\d{1,12})\\s*(ms|s|m|min)?");

    private final String side;
    private final Map<String, String> options;
    private final List<String> faults = new ArrayList<>();

    OptionReader(String side, CaseInsensitiveStringMap options, Set<String> known) {
        this.side = side;
        this.options = options;
        for (String name : options.asCaseSensitiveMap().keySet()) {
            if (known.stream().noneMatch(name::equalsIgnoreCase)
                    && !SPARKS_OWN.contains(name.toLowerCase(Locale.ROOT))) {
                faults.add("unknown option '" + name + "'" + NearestName.hint(name, known));
            }
        }
    }

    Login login() {
        required("brokerUrl", "the broker's address, such as tcp://HOST:PORT");
        TlsFiles tls = new TlsFiles(text("caFile", null), text("certificateFile", null), text("keyFile", null));
        return new LoginFields(text("brokerUrl", null), text("username", null), options.get("password"),
                text("passwordFile", null), tls).login(faults::add);
    }

    String text(String name, String otherwise) {
        String value = options.get(name);
        return value == null || value.isEmpty() ? otherwise : value;
    }

    String required(String name, String what) {
        String value = text(name, null);
        if (value == null) {
            faults.add("option '" + name + "' is missing (" + what + ")");
        }
        return value;
    }

    long number(String name, long otherwise, long least, long most) {
        return parsed(name, text -> {
            long value = Long.parseLong(text.strip());
            if (value < least || value > most) {
                throw new NumberFormatException();
            }
            return value;
        }, otherwise, "a whole number from " + least + " to " + most);
    }

    double ratio(String name, double otherwise, double most) {
        return parsed(name, text -> {
            double value = Double.parseDouble(text.strip());
            if (!(value >= 0 && value <= most)) {
                throw new NumberFormatException();
            }
            return value;
        }, otherwise, "a number from 0 to " + most);
    }

    Duration duration(String name, Duration otherwise) {
        return parsed(name, OptionReader::duration, otherwise, "a duration such as 500ms, 3s or 2min");
    }

    private static Duration duration(String text) {
        Matcher matcher = DURATION.matcher(text.strip().toLowerCase(Locale.ROOT));
        if (!matcher.matches()) {
            throw new NumberFormatException();
        }
        long amount = Long.parseLong(matcher.group(1));
        String unit = matcher.group(2) == null ? "ms" : matcher.group(2);
        return switch (unit) {
            case "ms" -> Duration.ofMillis(amount);
            case "s" -> Duration.ofSeconds(amount);
            default -> Duration.ofMinutes(amount);
        };
    }

    boolean flag(String name, boolean otherwise) {
        return choice(name, otherwise ? "true" : "false", "true", "false").equals("true");
    }

    String choice(String name, String otherwise, String... choices) {
        return parsed(name, text -> {
            for (String choice : choices) {
                if (choice.equalsIgnoreCase(text.strip())) {
                    return choice;
                }
            }
            throw new NumberFormatException();
        }, otherwise, String.join(" or ", choices));
    }

    /** Notes a fault that only several options together show. */
    void fault(String fault) {
        faults.add(fault);
    }

    /** Checks a value by a rule that throws {@link InvalidSettingException}. */
    <T> T parsed(String name, Function<String, T> parser, T otherwise) {
        return parsed(name, parser, otherwise, null);
    }

    private <T> T parsed(String name, Function<String, T> parser, T otherwise, String expected) {
        String value = text(name, null);
        if (value == null) {
            return otherwise;
        }
        try {
            return parser.apply(value);
        } catch (NumberFormatException e) {
            faults.add("option '" + name + "' is '" + value + "' (expected " + expected + ")");
        } catch (InvalidSettingException e) {
            faults.add("option '" + name + "': " + e.getMessage());
        }
        return otherwise;
    }

    /** @throws InvalidSettingException naming every fault, when there is one */
    void done() {
        if (!faults.isEmpty()) {
            throw new InvalidSettingException("mqtt " + side + ": " + String.join("; ", faults));
        }
    }
}
