package io.speck.mqtt;

import java.io.Serializable;
import java.time.Duration;

/**
 * The settings of a writer.
 *
 * @param login the broker and the credentials there; all writers of a process with the same login share one connection
 * @param flushTimeout time limit for the broker to acknowledge all written messages
 */
public record SinkSettings(Login login, Duration flushTimeout) implements Serializable {}
