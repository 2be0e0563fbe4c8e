package io.speck.flink.mqtt;

import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.Login;
import io.speck.mqtt.LoginFields;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.UnaryOperator;

/** Collects the faults in the settings of a source or sink, to report all at once. */
final class Faults {
    private final String side;
    private final List<String> found = new ArrayList<>();

    Faults(String side) {
        this.side = side;
    }

    void add(String fault) {
        found.add(fault);
    }

    String required(String name, String value, String meaning) {
        if (value == null || value.isEmpty()) {
            found.add("'" + name + "' is missing (" + meaning + ")");
            return null;
        }
        return value;
    }

    /** Checks a value, unless it is null, by a rule that throws {@link InvalidSettingException}. */
    void check(String name, String value, UnaryOperator<String> rule) {
        try {
            if (value != null) {
                rule.apply(value);
            }
        } catch (InvalidSettingException e) {
            found.add("'" + name + "': " + e.getMessage());
        }
    }

    void range(String name, long value, long least, long most) {
        if (value < least || value > most) {
            found.add("'" + name + "' is " + value + " (expected " + least + " to " + most + ")");
        }
    }

    void positive(String name, Duration value) {
        if (value.isNegative() || value.isZero()) {
            found.add("'" + name + "' is " + value + " (expected a positive duration)");
        }
    }

    Login login(LoginFields fields) {
        required("broker", fields.broker(), "the broker's address, such as tcp://HOST:1883");
        return fields.login(found::add);
    }

    /** @throws InvalidSettingException naming every fault, if there is any */
    void done() {
        if (!found.isEmpty()) {
            throw new InvalidSettingException("mqtt " + side + ": " + String.join("; ", found));
        }
    }
}
