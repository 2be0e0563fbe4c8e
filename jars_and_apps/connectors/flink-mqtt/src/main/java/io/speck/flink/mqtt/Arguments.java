package io.speck.flink.mqtt;

import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.NearestName;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;

/** A program's arguments: pairs of {@code --NAME VALUE}. */
final class Arguments {
    private final Map<String, String> values = new LinkedHashMap<>();
    private final TreeSet<String> read = new TreeSet<>();

    /** @throws InvalidSettingException for anything but such pairs, each name once */
    Arguments(String[] pairs) {
        for (int i = 0; i < pairs.length; i += 2) {
            String name = pairs[i].startsWith("--") ? pairs[i].substring(2) : "";
            if (name.isEmpty()) {
                throw new InvalidSettingException("argument '" + pairs[i] + "' (expected --NAME VALUE)");
            }
            if (i + 1 == pairs.length) {
                throw new InvalidSettingException("argument '" + pairs[i] + "' has no value");
            }
            if (values.put(name, pairs[i + 1]) != null) {
                throw new InvalidSettingException("argument '" + pairs[i] + "' is given twice");
            }
        }
    }

    /** Returns the value of an argument, or null. */
    String get(String name) {
        read.add(name);
        return values.get(name);
    }

    /** @throws InvalidSettingException naming the arguments that no part of the program reads */
    void done() {
        List<String> unknown = new ArrayList<>();
        for (String name : values.keySet()) {
            if (!read.contains(name)) {
                unknown.add("'--" + name + "'" + NearestName.hint(name, read));
            }
        }
        if (!unknown.isEmpty()) {
            throw new InvalidSettingException("unknown argument " + String.join(", ", unknown) + "; there are --"
                    + String.join(", --", read));
        }
    }
}
