/** Measurements on request: of the link to a broker, and of a core. */
package io.speck.connector.probe;

