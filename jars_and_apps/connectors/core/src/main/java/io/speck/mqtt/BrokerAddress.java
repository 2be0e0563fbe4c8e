package io.speck.mqtt;

import io.netty.util.NetUtil;
import java.io.Serializable;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The address of a broker, with or without encryption.
 *
 * <p>Accepts what {@code speck/schema/address.py} accepts; both are tested with the same table. {@link java.net.URI} is
 * not used, since it has no host for a name with an underscore, which compose stacks and many local networks have.
 *
 * @param scheme null for MQTT, as for an address that was stored before there were others
 */
public record BrokerAddress(String host, int port, boolean tls, String scheme) implements Serializable {
    private static final String KAFKA = "kafka";
    private static final String EXPECTED = "expected tcp://HOST:PORT, mqtt://HOST:PORT, mqtts://HOST:PORT, ssl://HOST:PORT"
            + " or kafka://HOST:PORT";
    private static final int LONGEST = 2048;
    private static final int LONGEST_HOST = 253;

    private static final Pattern ADDRESS = Pattern.compile(
            "(?<scheme>tcp|mqtts?|ssl|kafka)://(?:\\[(?<ipv6>[^\\[\\]]+)\\]|(?<name>[!-~&&[^:/?#\\[\\]@,]]+))(?::(?<port>[0-9]*))?/*",
            Pattern.CASE_INSENSITIVE);
    /** A name of DNS (RFC 1035, section 2.3.4: 63 octets a label), and underscores. */
    private static final Pattern NAME = label("[a-z0-9_]", "[a-z0-9_-]");
    /** A name that Java checks certificates for. */
    private static final Pattern TLS_NAME = label("[a-z0-9]", "[a-z0-9-]");

    private static Pattern label(String end, String inner) {
        String label = end + "(?:" + inner + "{0,61}" + end + ")?";
        return Pattern.compile(label + "(?:\\." + label + ")*");
    }

    /** Creates the address of a broker with MQTT. */
    public BrokerAddress(String host, int port, boolean tls) {
        this(host, port, tls, null);
    }

    /** True for a broker with the protocol of Kafka. */
    public boolean kafka() {
        return KAFKA.equals(scheme);
    }

    /**
     * Parses an address; the default port is 1883, 8883 with TLS, or Kafka's 9092.
     *
     * @throws InvalidSettingException for anything else
     */
    public static BrokerAddress parse(String text) {
        Matcher found = ADDRESS.matcher(text);
        if (text.length() > LONGEST || !found.matches()) {
            throw fault(text);
        }
        String scheme = found.group("scheme").toLowerCase(Locale.ROOT);
        boolean tls = scheme.equals("mqtts") || scheme.equals("ssl");
        boolean kafka = scheme.equals(KAFKA);
        String host = found.group("ipv6") != null ? ipv6(found.group("ipv6"), text) : name(found.group("name"), text);
        if (tls && found.group("ipv6") == null && !TLS_NAME.matcher(host).matches()) {
            throw new InvalidSettingException("'" + text + "' has an underscore in its host name, for which Java accepts no"
                    + " certificate (expected a name without one, or an IP address)");
        }
        int usual = kafka ? 9092 : tls ? 8883 : 1883;
        return new BrokerAddress(host, port(found.group("port"), usual, text), tls, kafka ? KAFKA : null);
    }

    private static String ipv6(String written, String text) {
        if (!NetUtil.isValidIpV6Address(written)) {
            throw fault(text);
        }
        return written.toLowerCase(Locale.ROOT);
    }

    private static String name(String written, String text) {
        String name = written.toLowerCase(Locale.ROOT);
        String host = name.endsWith(".") ? name.substring(0, name.length() - 1) : name;
        boolean number = name.matches("[0-9.]+");
        if (host.length() > LONGEST_HOST || !NAME.matcher(host).matches() || number && !isIpv4(name)) {
            throw fault(text);
        }
        return host;
    }

    /** True for four numbers from 0 to 255 without leading zeros, which some systems would read as octal. */
    private static boolean isIpv4(String name) {
        return NetUtil.isValidIpV4Address(name) && !name.matches("(?:.*\\.)?0[0-9].*");
    }

    private static int port(String written, int usual, String text) {
        if (written == null || written.isEmpty()) {
            return usual;
        }
        String digits = written.replaceFirst("^0+", "");
        int port = digits.isEmpty() || digits.length() > 5 ? 0 : Integer.parseInt(digits);
        if (port < 1 || port > 65535) {
            throw fault(text);
        }
        return port;
    }

    private static InvalidSettingException fault(String text) {
        String shown = text.replaceFirst("//[^/]*@", "//***@");
        return new InvalidSettingException("'" + shown + "' is not a broker address (" + EXPECTED + ")");
    }

    @Override
    public String toString() {
        String hostText = host.contains(":") ? "[" + host + "]" : host;
        return (kafka() ? "kafka://" : tls ? "mqtts://" : "tcp://") + hostText + ":" + port;
    }
}
