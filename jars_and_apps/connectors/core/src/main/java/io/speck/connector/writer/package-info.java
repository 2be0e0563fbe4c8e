/** The figures of a writer, and messages that a broker does not accept. */
package io.speck.connector.writer;
