package io.speck.spark.mqtt;

import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.Login;
import io.speck.mqtt.LoginFields;
import io.speck.mqtt.NearestName;
import io.speck.mqtt.TlsFiles;
import io.speck.mqtt.failure.OnError;
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

/** Reads the options of a source or sink, and collects their faults to report all at once. */
final class OptionReader {
    static final Set<String> LOGIN = Set.of("brokerUrl", "username", "password", "passwordFile", "caFile",
            "certificateFile", "keyFile", "sasl");
    /** The login at the broker of the parking topic, for a sink at another one. */
    static final Set<String> PARKING = Set.of("parkBrokerUrl", "parkUsername", "parkPassword", "parkPasswordFile",
            "parkCaFile", "parkCertificateFile", "parkKeyFile", "parkSasl");
    /** Options that Spark itself adds. */
    private static final Set<String> ADDED_BY_SPARK = Set.of("checkpointlocation", "path", "queryname", "header");
    private static final Pattern DURATION = Pattern.compile("(\\d{1,12})\\s*(ms|s|m|min)?");

    private final String side;
    private final Map<String, String> options;
    private final List<String> faults = new ArrayList<>();

    OptionReader(String side, CaseInsensitiveStringMap options, Set<String> known) {
        this.side = side;
        this.options = options;
        for (String name : options.asCaseSensitiveMap().keySet()) {
            if (known.stream().noneMatch(name::equalsIgnoreCase)
                    && !ADDED_BY_SPARK.contains(name.toLowerCase(Locale.ROOT))) {
                faults.add("unknown option '" + name + "'" + NearestName.hint(name, known));
            }
        }
    }

    Login login() {
        required("brokerUrl", "the broker's address, such as tcp://HOST:PORT");
        TlsFiles tls = new TlsFiles(text("caFile", null), text("certificateFile", null), text("keyFile", null));
        return new LoginFields(text("brokerUrl", null), text("username", null), options.get("password"),
                text("passwordFile", null), tls, text("sasl", null)).login(faults::add);
    }

    /** The login at the broker of the parking topic. */
    Login parkingLogin() {
        required("parkBrokerUrl", "the address of the broker of the parking topic, such as tcp://HOST:PORT");
        TlsFiles tls = new TlsFiles(text("parkCaFile", null), text("parkCertificateFile", null),
                text("parkKeyFile", null));
        return new LoginFields(text("parkBrokerUrl", null), text("parkUsername", null), options.get("parkPassword"),
                text("parkPasswordFile", null), tls, text("parkSasl", null)).login(faults::add);
    }

    /** The treatment of what the query fails on. */
    OnError onError() {
        String treatment = choice("onError", "fail", "fail", "skip", "park");
        String topic = text("parkTopic", null);
        if (treatment.equals("park") != (topic != null)) {
            fault("option 'parkTopic' belongs to onError 'park', which needs it");
            return OnError.FAIL;
        }
        return OnError.of(treatment, topic, text("job", ""));
    }

    String text(String name, String fallback) {
        String value = options.get(name);
        return value == null || value.isEmpty() ? fallback : value;
    }

    String required(String name, String meaning) {
        String value = text(name, null);
        if (value == null) {
            faults.add("option '" + name + "' is missing (" + meaning + ")");
        }
        return value;
    }

    long number(String name, long fallback, long least, long most) {
        return parsed(name, text -> {
            long value = Long.parseLong(text.strip());
            if (value < least || value > most) {
                throw new NumberFormatException();
            }
            return value;
        }, fallback, "a whole number from " + least + " to " + most);
    }

    double ratio(String name, double fallback, double most) {
        return parsed(name, text -> {
            double value = Double.parseDouble(text.strip());
            if (!(value >= 0 && value <= most)) {
                throw new NumberFormatException();
            }
            return value;
        }, fallback, "a number from 0 to " + most);
    }

    Duration duration(String name, Duration fallback) {
        return parsed(name, OptionReader::duration, fallback, "a duration such as 500ms, 3s or 2min");
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

    boolean flag(String name, boolean fallback) {
        return choice(name, fallback ? "true" : "false", "true", "false").equals("true");
    }

    String choice(String name, String fallback, String... choices) {
        return parsed(name, text -> {
            for (String choice : choices) {
                if (choice.equalsIgnoreCase(text.strip())) {
                    return choice;
                }
            }
            throw new NumberFormatException();
        }, fallback, String.join(" or ", choices));
    }

    /** Adds a fault of several options together. */
    void fault(String fault) {
        faults.add(fault);
    }

    /** Checks a value by a rule that throws {@link InvalidSettingException}. */
    <T> T parsed(String name, Function<String, T> parser, T fallback) {
        return parsed(name, parser, fallback, null);
    }

    private <T> T parsed(String name, Function<String, T> parser, T fallback, String expected) {
        String value = text(name, null);
        if (value == null) {
            return fallback;
        }
        try {
            return parser.apply(value);
        } catch (NumberFormatException e) {
            faults.add("option '" + name + "' is '" + value + "' (expected " + expected + ")");
        } catch (InvalidSettingException e) {
            faults.add("option '" + name + "': " + e.getMessage());
        }
        return fallback;
    }

    /** @throws InvalidSettingException naming every fault, if there is any */
    void done() {
        if (!faults.isEmpty()) {
            throw new InvalidSettingException("mqtt " + side + ": " + String.join("; ", faults));
        }
    }
}
