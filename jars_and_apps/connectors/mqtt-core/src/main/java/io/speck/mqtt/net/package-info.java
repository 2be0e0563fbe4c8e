/**

 * Connections to brokers: the client's side of the protocol on one channel, TLS, persistent sessions that are
 * re-established with back-off, and the threads and buffers that all connections of a process share.
 */
package io.speck.mqtt.net;
