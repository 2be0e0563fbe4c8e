/**

 * Stamps: the identity of a message across repeated work of its writer. Readers drop duplicates by a watermark for each
 * stream of stamps, or by ranges of stamps while messages may arrive out of order.
 */
package io.speck.mqtt.stamp;
