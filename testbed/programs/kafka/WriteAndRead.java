import io.speck.connector.Brokers;
import io.speck.connector.MessageSink;
import io.speck.connector.MessageSource;
import io.speck.connector.reader.BatchJournal;
import io.speck.mqtt.Login;
import io.speck.mqtt.LoginFields;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.TlsFiles;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * Writes a message to a topic and reads it back by a session; arguments: broker, user, password file, CA, certificate, key,
 * SASL, session; "-" for none.
 */
public class WriteAndRead {
    public static void main(String[] arguments) throws Exception {
        String[] given = Arrays.stream(arguments).map(each -> each.equals("-") ? null : each).toArray(String[]::new);
        TlsFiles tls = new TlsFiles(given[3], given[4], given[5]);
        Login login = new LoginFields(given[0], given[1], null, given[2], tls, given[6])
                .login(fault -> System.out.println("fault: " + fault));
        try {
            write(login);
            read(login, given[7]);
        } catch (RuntimeException e) {
            System.out.println("error: " + e.getMessage());
        }
        System.exit(0);
    }

    private static void write(Login login) throws Exception {
        try (MessageSink sink = Brokers.of(login).sink(new SinkSettings(login, Duration.ofSeconds(20)), false)) {
            sink.send("in", "secured".getBytes(StandardCharsets.UTF_8), null, null, null);
            sink.flush();
        }
    }

    private static void read(Login login, String session) throws Exception {
        SourceSettings settings = new SourceSettings(login, session, "in", 100, 1 << 20, null, 0, true, Duration.ofSeconds(20));
        try (MessageSource source = Brokers.of(login).batches(settings, new Nothing())) {
            source.open(0, 0);
            long end = source.await(1, Duration.ofSeconds(20).toNanos());
            source.messages(0, end).forEach(each -> System.out.println("read: " + new String(each.payload())));
        }
    }

    /** A journal without a state. */
    private static final class Nothing implements BatchJournal {
        @Override
        public SortedMap<Long, byte[]> read() {
            return new TreeMap<>();
        }

        @Override
        public void write(long start, byte[] record) {}

        @Override
        public void delete(long start) {}
    }
}
