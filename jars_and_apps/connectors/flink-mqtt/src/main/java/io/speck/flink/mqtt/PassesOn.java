package io.speck.flink.mqtt;

import io.speck.mqtt.stamp.CurrentInput;

/**
 * An operator whose outputs are those of the element that it has, or are written {@link CurrentInput#aside aside}. It
 * leaves the stamps of a job derived, although it has a state.
 */
public interface PassesOn {}
