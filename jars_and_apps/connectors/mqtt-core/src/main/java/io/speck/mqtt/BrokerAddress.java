package io.speck.mqtt;

import java.io.Serializable;
import java.net.URI;
import java.net.URISyntaxException;
import java.util.Locale;

/** The address of a broker, with or without encryption. */
public record BrokerAddress(String host, int port, boolean tls) implements Serializable {
    private static final String EXPECTED = "expected tcp://HOST:PORT, mqtt://HOST:PORT, mqtts://HOST:PORT or ssl://HOST:PORT";

    /**
     * Parses an address; the default port is 1883, or 8883 with TLS.
     *
     * @throws InvalidSettingException for anything else
     */
    public static BrokerAddress parse(String text) {
        URI uri = uri(text);
        boolean tls = encrypted(text, uri);
        boolean hostOnly = uri.getHost() != null && uri.getUserInfo() == null && uri.getQuery() == null;
        if (!hostOnly || !(uri.getPath() == null || uri.getPath().isEmpty() || uri.getPath().equals("/"))) {
            throw fault(withoutLogin(text));
        }
        int port = uri.getPort() < 0 ? (tls ? 8883 : 1883) : uri.getPort();
        if (port < 1 || port > 65535) {
            throw fault(text);
        }
        return new BrokerAddress(withoutBrackets(uri.getHost()), port, tls);
    }

    private static URI uri(String text) {
        try {
            return new URI(text.strip());
        } catch (URISyntaxException e) {
            throw fault(withoutLogin(text));
        }
    }

    private static boolean encrypted(String text, URI uri) {
        String scheme = uri.getScheme() == null ? "" : uri.getScheme().toLowerCase(Locale.ROOT);
        return switch (scheme) {
            case "tcp", "mqtt" -> false;
            case "mqtts", "ssl" -> true;
            default -> throw fault(withoutLogin(text));
        };
    }

    private static String withoutBrackets(String host) {
        return host.startsWith("[") ? host.substring(1, host.length() - 1) : host;
    }

    private static String withoutLogin(String text) {
        return text.replaceFirst("//[^/]*@", "//***@");
    }

    private static InvalidSettingException fault(String text) {
        return new InvalidSettingException("'" + text + "' is not a broker address (" + EXPECTED + ")");
    }

    @Override
    public String toString() {
        String hostText = host.contains(":") ? "[" + host + "]" : host;
        return (tls ? "mqtts://" : "tcp://") + hostText + ":" + port;
    }
}
