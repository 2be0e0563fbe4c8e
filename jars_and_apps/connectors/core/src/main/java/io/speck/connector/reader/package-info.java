/** The parts of a reader that no protocol decides: the buffer of uncommitted messages, repetitions, counts and losses. */
package io.speck.connector.reader;
