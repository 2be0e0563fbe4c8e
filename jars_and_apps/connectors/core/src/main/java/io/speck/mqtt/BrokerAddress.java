package io.speck.mqtt;

import io.netty.util.NetUtil;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
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
 * @param others further brokers of a cluster, each HOST:PORT, with commas between; null for none
 */
public record BrokerAddress(String host, int port, boolean tls, String scheme, String others) implements Serializable {
    private static final String KAFKA = "kafka";
    private static final String EXPECTED = "expected tcp://HOST:PORT, mqtt://HOST:PORT, mqtts://HOST:PORT, ssl://HOST:PORT,"
            + " kafka://HOST:PORT or kafkas://HOST:PORT";
    private static final int LONGEST = 2048;
    private static final int LONGEST_HOST = 253;

    private static final Pattern ADDRESS = Pattern.compile(
            "(?<scheme>tcp|mqtts?|ssl|kafkas?)://(?:\\[(?<ipv6>[^\\[\\]]+)\\]|(?<name>[!-~&&[^:/?#\\[\\]@,]]+))"
                    + "(?::(?<port>[0-9]*))?/*",
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
        this(host, port, tls, null, null);
    }

    /** True for a broker with the protocol of Kafka. */
    public boolean kafka() {
        return KAFKA.equals(scheme);
    }

    /**
     * Parses an address; the default port is 1883, 8883 with TLS, or Kafka's 9092, 9093 with TLS.
     *
     * @throws InvalidSettingException for anything else
     */
    public static BrokerAddress parse(String text) {
        int hosts = text.indexOf("://") + 3;
        boolean several = text.indexOf(',') > 0 && text.toLowerCase(Locale.ROOT).startsWith(KAFKA)
                && text.length() <= LONGEST;
        return several && hosts > 2 ? cluster(text, text.substring(0, hosts), text.substring(hosts)) : single(text);
    }

    /** Parses the address of several brokers, which are sorted by their texts. */
    private static BrokerAddress cluster(String text, String scheme, String hosts) {
        String[] each = hosts.replaceFirst("/*$", "").split(",", -1);
        List<String> brokers = new ArrayList<>();
        for (String host : each) {
            if (host.contains("/")) {
                throw fault(text);
            }
            brokers.add(single(scheme + host).server());
        }
        Collections.sort(brokers);
        if (new HashSet<>(brokers).size() < brokers.size()) {
            throw fault(text);
        }
        BrokerAddress first = single(scheme + brokers.get(0));
        return new BrokerAddress(first.host, first.port, first.tls, first.scheme,
                String.join(",", brokers.subList(1, brokers.size())));
    }

    /** The first broker as HOST:PORT. */
    private String server() {
        return (host.contains(":") ? "[" + host + "]" : host) + ":" + port;
    }

    /** All brokers as HOST:PORT, with commas between. */
    public String servers() {
        return server() + (others == null ? "" : "," + others);
    }

    private static BrokerAddress single(String text) {
        Matcher found = ADDRESS.matcher(text);
        if (text.length() > LONGEST || !found.matches()) {
            throw fault(text);
        }
        String scheme = found.group("scheme").toLowerCase(Locale.ROOT);
        boolean tls = List.of("mqtts", "ssl", "kafkas").contains(scheme);
        boolean kafka = scheme.startsWith(KAFKA);
        String host = found.group("ipv6") != null ? ipv6(found.group("ipv6"), text) : name(found.group("name"), text);
        if (tls && found.group("ipv6") == null && !TLS_NAME.matcher(host).matches()) {
            throw new InvalidSettingException("'" + text + "' has an underscore in its host name, for which Java accepts no"
                    + " certificate (expected a name without one, or an IP address)");
        }
        int usual = kafka ? (tls ? 9093 : 9092) : tls ? 8883 : 1883;
        return new BrokerAddress(host, port(found.group("port"), usual, text), tls, kafka ? KAFKA : null, null);
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
        String name = kafka() ? (tls ? "kafkas" : KAFKA) : tls ? "mqtts" : "tcp";
        return name + "://" + servers();
    }
}
