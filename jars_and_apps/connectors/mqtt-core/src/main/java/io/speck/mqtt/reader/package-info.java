/**

 * Reading a topic through a persistent session: messages get increasing offsets, batches are recorded in the engine's
 * state, acknowledgements follow its commits, redelivered messages are matched with known ones, and a fence ends
 * readers of older attempts.
 */
package io.speck.mqtt.reader;
