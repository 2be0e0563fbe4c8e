/**
 * The types that all connectors share, for any kind of broker: settings, logins, received messages and errors. Beside it,
 * {@code stamp} and {@code failure} are shared too; the other packages of this name are the MQTT 5 client.
 *
 * <p>The client is the project's own because exactly-once processing rests on packet ids, the DUP flag and the order of
 * acknowledgements. HiveMQ's client hides these from its callers, and Eclipse Paho Java has had no release since 2020.
 *
 * <p>Flink stores some of these classes in job graphs and savepoints, and programs of users refer to them. The names of
 * serializable classes and of their fields are therefore part of the stored format.
 */
package io.speck.mqtt;
