package io.speck.mqtt;

import java.io.Serializable;
import java.time.Duration;

/**
 * How a writer behaves.
 *
 * @param login the broker and who we are there; all writers of a process with the same login share one connection
 * @param flushTimeout how long to wait for the broker to have taken what was written
 */
public record SinkSettings(Login login, Duration flushTimeout) implements Serializable {}
