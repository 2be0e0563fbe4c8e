package io.speck.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.util.NetUtil;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** Accepts the addresses that the coordinator accepts, and no others: {@code tests/schema/test_address.py} reads the same table. */
class BrokerAddressTest {
    private static final Pattern ESCAPED = Pattern.compile("\\\\(u[0-9a-f]{4}|.)");

    @Test
    void addressesAreThoseOfTheCoordinator() throws IOException {
        List<String[]> cases = cases();
        assertTrue(cases.size() > 200, () -> cases.size() + " cases");
        for (String[] each : cases) {
            String text = unescaped(each[0]);
            if (each.length == 2) {
                assertThrows(InvalidSettingException.class, () -> BrokerAddress.parse(text), each[0]);
                continue;
            }
            BrokerAddress found = BrokerAddress.parse(text);
            assertEquals(comparable(each[1]), comparable(found.host()), each[0]);
            assertEquals(each[2], Integer.toString(found.port()), each[0]);
            assertEquals(each[3].equals("tls"), found.tls(), each[0]);
            assertEquals(found, BrokerAddress.parse(found.toString()), each[0]);
        }
    }

    /** The same for all texts of one IPv6 address. */
    private static String comparable(String host) {
        return host.contains(":") ? Arrays.toString(NetUtil.createByteArrayFromIpAddressString(host)) : host;
    }

    private static List<String[]> cases() throws IOException {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(Objects.requireNonNull(
                BrokerAddressTest.class.getResourceAsStream("addresses.tsv")), StandardCharsets.UTF_8))) {
            return lines.lines().filter(line -> !line.startsWith("#")).map(line -> line.split("\t")).toList();
        }
    }

    private static String unescaped(String text) {
        return ESCAPED.matcher(text).replaceAll(found -> {
            String escape = found.group(1);
            char plain = switch (escape.charAt(0)) {
                case 'u' -> (char) Integer.parseInt(escape.substring(1), 16);
                case 't' -> '\t';
                default -> escape.charAt(0);
            };
            return java.util.regex.Matcher.quoteReplacement(String.valueOf(plain));
        });
    }
}
