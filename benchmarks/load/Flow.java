import java.io.IOException;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;

/** Publishes numbered messages to one topic, receives them from another, and counts; over the clients of any kind of broker. */
final class Flow {
    /** The clients of a broker. */
    interface Clients {
        /** @param paced false for messages that are published as fast as the broker takes them */
        Publisher publisher(Map<String, String> options, int run, boolean paced) throws IOException;

        /** Returns what counts the messages of a run from now on; closed, it receives nothing. */
        Receiver receiver(String topic, int run, int messages) throws IOException;
    }

    /** Publishes the messages of one run. */
    interface Publisher extends AutoCloseable {
        void publish(int number) throws IOException, InterruptedException;

        /** Sends what is published and not sent. */
        void flush() throws IOException;

        void awaitAcknowledged() throws IOException, InterruptedException;
    }

    /** Receives the messages of one run. */
    interface Receiver extends AutoCloseable {
        Tally tally();
    }

    private final Clients clients;
    private int runs;

    private Flow(Clients clients) {
        this.clients = clients;
    }

    /** Carries out the commands of standard input. */
    static void serve(Clients clients) throws IOException {
        Flow flow = new Flow(clients);
        Commands.serve(Map.of("flood", flow::flood, "paced", flow::paced));
    }

    private String flood(Map<String, String> options) throws Exception {
        int messages = Integer.parseInt(options.get("messages"));
        int run = ++runs;
        try (Receiver receiver = clients.receiver(options.get("in"), run, messages);
                Publisher publisher = clients.publisher(options, run, false)) {
            Tally tally = receiver.tally();
            long first = System.nanoTime();
            for (int number = 0; number < messages; number++) {
                publisher.publish(number);
            }
            publisher.awaitAcknowledged();
            long published = System.nanoTime();
            tally.awaitAll();
            return tally.counts(messages) + String.format(Locale.ROOT,
                    ", \"publish_seconds\": %.6f, \"seconds\": %.6f}",
                    (published - first) / 1e9, (tally.lastNanos - first) / 1e9);
        }
    }

    private String paced(Map<String, String> options) throws Exception {
        double rate = Double.parseDouble(options.get("rate"));
        int messages = (int) (rate * Double.parseDouble(options.get("seconds")));
        int unmeasured = (int) (rate * Double.parseDouble(options.getOrDefault("warmup", "0")));
        int run = ++runs;
        try (Receiver receiver = clients.receiver(options.get("in"), run, unmeasured + messages);
                Publisher publisher = clients.publisher(options, run, true)) {
            long first = System.nanoTime();
            for (int number = 0; number < unmeasured + messages; number++) {
                long due = first + (long) (number * 1e9 / rate);
                for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
                    LockSupport.parkNanos(left);
                }
                publisher.publish(number);
                publisher.flush();
            }
            receiver.tally().awaitAll();
            return receiver.tally().counts(unmeasured + messages) + receiver.tally().percentiles(unmeasured) + "}";
        }
    }
}
