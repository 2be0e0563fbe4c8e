/** The entry of the engines' connectors to this client. */
package io.speck.mqtt.provider;
