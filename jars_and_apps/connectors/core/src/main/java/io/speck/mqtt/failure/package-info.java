/**
 * The treatment of messages on which a job's own code fails: the job fails, or they are skipped or parked in a topic of
 * their own.
 */
package io.speck.mqtt.failure;
