package io.speck.spark.mqtt.sql;

import io.speck.sql.SqlProgram;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;

/** The program that each row of a query names: a literal, which is one object for all rows of a task if it is BINARY. */
final class NamedProgram implements Serializable {
    private static final long serialVersionUID = 1L;

    private record Found(Object name, SqlProgram program) {}

    private transient Found last;

    /** @param name its text, as STRING or as UTF-8 in BINARY */
    SqlProgram of(Object name) {
        Found found = last;
        if (found == null || found.name != name) {
            String text = name instanceof byte[] bytes ? new String(bytes, StandardCharsets.UTF_8) : (String) name;
            found = new Found(name, SqlProgram.of(text));
            last = found;
        }
        return found.program;
    }
}
