/**

 * Stamps: the identity of a message across repeated work of its writer. Readers keep ranges of the stamps that they have
 * seen, and drop the messages that repeat one.
 */
package io.speck.mqtt.stamp;
