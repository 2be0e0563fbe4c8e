package io.speck.mqtt.writer;

import io.speck.mqtt.Login;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.stamp.Stamp;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;

/** A process of its own that writes messages {@code m0, m1, ...} to {@code in/a}, and can be killed. */
public final class WriterProcess implements AutoCloseable {
    private static final String FLUSHED = "flushed";

    private final Process process;

    private WriterProcess(Process process) {
        this.process = process;
    }

    /** Starts a process that writes messages {@code from} to {@code to} - 1; returns when they are flushed. */
    public static WriterProcess flushed(String broker, Path spool, int from, int to) throws IOException {
        Process process = new ProcessBuilder(ProcessHandle.current().info().command().orElse("java"), "-Xmx64m",
                "-cp", System.getProperty("java.class.path"), WriterProcess.class.getName(),
                broker, spool.toString(), Integer.toString(from), Integer.toString(to))
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        WriterProcess started = new WriterProcess(process);
        String line = process.inputReader().readLine();
        if (!FLUSHED.equals(line)) {
            started.close();
            throw new IOException("the writer said " + line);
        }
        return started;
    }

    /** Ends it as a power cut does. */
    @Override
    public void close() {
        process.destroyForcibly().onExit().join();
    }

    /** Writes, and waits to be killed. */
    public static void main(String[] arguments) throws Exception {
        SinkSettings settings = new SinkSettings(Login.anonymous(arguments[0]), Duration.ofSeconds(30));
        MqttSink other = new MqttSink(settings); // as of a probe: it connects the publisher of both
        MqttSink sink = new MqttSink(settings.withSpool(arguments[1]));
        other.close();
        for (int number = Integer.parseInt(arguments[2]); number < Integer.parseInt(arguments[3]); number++) {
            sink.send("in/a", bytes("m" + number), null, bytes("job"), bytes(Stamp.prefix("run", 0, 0) + number));
        }
        sink.flush();
        System.out.println(FLUSHED);
        Thread.sleep(Duration.ofMinutes(5).toMillis());
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
