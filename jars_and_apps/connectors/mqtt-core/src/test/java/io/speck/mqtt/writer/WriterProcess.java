package io.speck.mqtt.writer;

import io.speck.mqtt.Login;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.failure.LeftOut;
import io.speck.mqtt.failure.OnError;
import io.speck.mqtt.stamp.CompactForm;
import io.speck.mqtt.stamp.Stamp;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;

/** A process of its own that writes or parks messages {@code m0, m1, ...}, at {@code in/a}, and can be killed. */
public final class WriterProcess implements AutoCloseable {
    private static final String FLUSHED = "flushed";

    private final Process process;

    private WriterProcess(Process process) {
        this.process = process;
    }

    /** Starts a process that writes messages {@code from} to {@code to} - 1; returns when they are flushed. */
    public static WriterProcess flushed(String broker, Path spool, int from, int to) throws IOException {
        return started("write", broker, spool, from, to);
    }

    /** Starts a process that parks these messages; returns when they are flushed. */
    public static WriterProcess parked(String broker, Path spool, int from, int to) throws IOException {
        return started("park", broker, spool, from, to);
    }

    /** Starts a process that does not begin to write before it ends; returns when they are flushed. */
    public static WriterProcess ending(String broker, Path spool, int from, int to) throws IOException {
        return started("end", broker, spool, from, to);
    }

    private static WriterProcess started(String task, String broker, Path spool, int from, int to) throws IOException {
        return started(System.getProperty("java.class.path"), task, broker, spool, from, to);
    }

    /** Starts it with other classes, such as those of another version. */
    public static WriterProcess started(String classPath, String task, String broker, Path spool, int from, int to)
            throws IOException {
        Process process = new ProcessBuilder(ProcessHandle.current().info().command().orElse("java"), "-Xmx64m",
                "-D" + CompactForm.PROPERTY + "=" + System.getProperty(CompactForm.PROPERTY, "text"),
                "-cp", classPath, WriterProcess.class.getName(), broker, spool.toString(), Integer.toString(from), Integer.toString(to), task)
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        WriterProcess started = new WriterProcess(process);
        String line = process.inputReader().readLine();
        if (!FLUSHED.equals(line)) {
            started.close();
            throw new IOException("the writer said " + line);
        }
        return started;
    }

    /** Asks it to end, and waits for that. */
    public void terminate() {
        process.destroy();
        process.onExit().join();
    }

    /** Ends it as a power cut does. */
    @Override
    public void close() {
        process.destroyForcibly().onExit().join();
    }

    /** Writes, and waits to be killed. */
    public static void main(String[] arguments) throws Exception {
        SinkSettings settings = new SinkSettings(Login.anonymous(arguments[0]), Duration.ofSeconds(30));
        int from = Integer.parseInt(arguments[2]);
        int to = Integer.parseInt(arguments[3]);
        switch (arguments[4]) {
            case "park" -> park(settings.withSpool(arguments[1]), from, to);
            case "end" -> {
                Runtime.getRuntime().addShutdownHook(new Thread(() -> writeAtEnd(settings, arguments[1], from, to)));
                return;
            }
            default -> write(settings, arguments[1], from, to);
        }
        System.out.println(FLUSHED);
        Thread.sleep(Duration.ofMinutes(5).toMillis());
    }

    private static void writeAtEnd(SinkSettings settings, String spool, int from, int to) {
        try {
            write(settings, spool, from, to);
            System.out.println(FLUSHED);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static void write(SinkSettings settings, String spool, int from, int to) throws InterruptedException {
        MqttSink other = new MqttSink(settings); // as of a probe: it connects the publisher of both
        MqttSink sink = new MqttSink(settings.withSpool(spool));
        other.close();
        for (int number = from; number < to; number++) {
            sink.send("in/a", bytes("m" + number), null, bytes("job"), bytes(Stamp.prefix("run", 0, 0) + number));
        }
        sink.flush();
    }

    private static void park(SinkSettings settings, int from, int to) throws InterruptedException {
        LeftOut leftOut = new LeftOut(OnError.of("park", "in/a", "job"), settings);
        for (int number = from; number < to; number++) {
            leftOut.add("elsewhere", bytes("m" + number), null, "no number");
        }
        leftOut.flush();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
