/**
 * Source and sink for Kafka: records under stamps in their headers, places committed to a group named as the session,
 * and the records of the coordinator in the compacted topic {@code speck.control}.
 */
package io.speck.kafka;
