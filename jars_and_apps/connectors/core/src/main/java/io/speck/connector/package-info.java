/**
 * The parts of the connectors that are the same for all kinds of brokers: the interfaces of sources and sinks, and what
 * both kinds of engines use of them. Internal: programs use the packages of their engine.
 *
 * <p>Settings, stamps and the treatment of failed messages stay in {@code io.speck.mqtt}, where programs import them and
 * stored jobs name them.
 */
package io.speck.connector;
