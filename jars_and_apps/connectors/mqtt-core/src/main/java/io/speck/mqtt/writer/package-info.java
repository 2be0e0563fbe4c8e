/**

 * Writing to topics at QoS 1: all writers of a process share one connection to a broker. Unacknowledged messages are
 * sent again on the next connection, and so are acknowledged ones that the broker may have lost.
 */
package io.speck.mqtt.writer;
