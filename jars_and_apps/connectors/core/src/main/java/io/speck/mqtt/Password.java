package io.speck.mqtt;

import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;

/** A password, or the file that holds it on the machine of the task. Its text form never shows the password. */
public final class Password implements Serializable {
    private static final long serialVersionUID = 1L;
    /** The protocol's bound for a password (MQTT 5, 1.5.6). */
    private static final int LONGEST = 65_535;

    private final String text;
    private final String file;

    private Password(String text, String file) {
        this.text = text;
        this.file = file;
    }

    public static Password of(String text) {
        return new Password(Objects.requireNonNull(text), null);
    }

    /**
     * A password in a file, which is read for each connection, so that it may be replaced; surrounding spaces are
     * ignored.
     */
    public static Password in(String file) {
        return new Password(null, Objects.requireNonNull(file));
    }

    /** @throws BrokerException if the file cannot be read; no message shows its content */
    byte[] reveal(BrokerAddress broker) {
        if (file == null) {
            return text.getBytes(StandardCharsets.UTF_8);
        }
        try {
            Path path = Path.of(file);
            if (Files.size(path) > LONGEST) {
                throw unusable(broker, "is too long for a password");
            }
            return Files.readString(path).strip().getBytes(StandardCharsets.UTF_8);
        } catch (IOException | RuntimeException e) {
            throw e instanceof BrokerException known ? known : unusable(broker, "cannot be read");
        }
    }

    private BrokerException unusable(BrokerAddress broker, String why) {
        return new BrokerException("broker " + broker + ": the password file '" + file + "' " + why
                + " (expected a file with nothing but the password, on the machine of the task)", true);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Password that && Objects.equals(text, that.text) && Objects.equals(file, that.file);
    }

    @Override
    public int hashCode() {
        return Objects.hash(file);
    }

    @Override
    public String toString() {
        return file == null ? "***" : "the password in '" + file + "'";
    }
}
