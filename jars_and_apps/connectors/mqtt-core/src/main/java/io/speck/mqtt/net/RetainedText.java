package io.speck.mqtt.net;

/** A text to be retained at a topic. */
public record RetainedText(String topic, String text) {}
