package io.speck.flink.mqtt;

import io.speck.mqtt.InvalidSettingException;
import io.speck.mqtt.LoginFields;
import io.speck.mqtt.Received;
import io.speck.mqtt.TlsFiles;
import io.speck.mqtt.failure.OnError;
import java.time.Duration;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.runtime.jobgraph.JobVertex;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.types.Row;

/**
 * A program that reads one topic and writes one, as SpecK runs it.
 *
 * <pre>{@code
 * MqttJob job = MqttJob.of(arguments);
 * String word = job.argument("word", "hello");
 * job.write(job.texts().filter(text -> text.contains(word)));
 * job.execute();
 * }</pre>
 *
 * <p>Arguments: {@code --job-name --source-broker --source-topic --sink-broker --sink-topic}, perhaps {@code --session
 * --attempt --fence-topic}, and the program's own. Logins at the brokers are not among them, since Flink shows a job's
 * arguments to all users: they are in Flink's configuration, under {@code speck.source.} and {@code speck.sink.}
 * followed by {@code username}, {@code password} or {@code password-file}, {@code ca-file}, {@code certificate-file},
 * {@code key-file} and {@code sasl}. The files are on the machine of the task.
 */
public final class MqttJob {
    /** A link between two sites that is cut for some minutes delays a job, and does not end it. */
    private static final Duration FLUSH_TIMEOUT = Duration.ofMinutes(10);

    private final StreamExecutionEnvironment environment;
    private final Arguments arguments;
    private final String name;
    private final int parallelism;
    /** The source of {@link #texts()}; null before. */
    private DataStream<String> texts;
    /** True if the contents of that source are written as they are, by a source of their own. */
    private boolean relayed;
    /** True if no message fails in an operator that is not chained to the source. */
    private boolean laterOperatorsSafe;

    private MqttJob(StreamExecutionEnvironment environment, String[] pairs) {
        this.environment = environment;
        arguments = new Arguments(pairs);
        name = required("job-name");
        parallelism = environment.getParallelism();
        environment.setParallelism(1);
    }

    /** @throws InvalidSettingException if the arguments are not pairs of name and value, or do not name a job */
    public static MqttJob of(String[] arguments) {
        return of(StreamExecutionEnvironment.getExecutionEnvironment(), arguments);
    }

    /** Does the same in an environment that the program has created already. */
    public static MqttJob of(StreamExecutionEnvironment environment, String[] arguments) {
        return new MqttJob(environment, arguments);
    }

    private String required(String argument) {
        String value = arguments.get(argument);
        if (value == null || value.isEmpty()) {
            throw new InvalidSettingException("argument '--" + argument + "' is missing");
        }
        return value;
    }

    public String name() {
        return name;
    }

    public StreamExecutionEnvironment environment() {
        return environment;
    }

    /**
     * The configured parallelism, to be set on operators after a keyBy. All others have 1: between operators of
     * different parallelism Flink distributes elements round-robin from a random start, so that after a failure they
     * would reach other subtasks than before, and get wrong stamps.
     */
    public int parallelism() {
        return parallelism;
    }

    /** The zone of local times in the job: that of Flink's tables, by default the machine's. */
    public ZoneId timezone() {
        String zone = setting("table.local-time-zone");
        return zone == null || zone.equals("default") ? ZoneId.systemDefault() : ZoneId.of(zone);
    }

    /** Returns an argument of the program's own. */
    public String argument(String argument, String fallback) {
        String value = arguments.get(argument);
        return value == null ? fallback : value;
    }

    /**
     * Returns a parsed argument of the program's own.
     *
     * @param expected the expected form, for the error
     * @throws InvalidSettingException if {@code parser} throws an {@link IllegalArgumentException}
     */
    public <T> T argument(String argument, String fallback, Function<String, T> parser, String expected) {
        String value = argument(argument, fallback);
        try {
            return parser.apply(value);
        } catch (IllegalArgumentException e) {
            throw new InvalidSettingException("argument '--" + argument + "' is '" + value + "' (expected " + expected
                    + ")", e);
        }
    }

    /** Returns a whole number among the program's own arguments. */
    public long number(String argument, long fallback, long least, long most) {
        return argument(argument, Long.toString(fallback), text -> {
            long number = Long.parseLong(text.strip());
            if (number < least || number > most) {
                throw new NumberFormatException();
            }
            return number;
        }, "a whole number from " + least + " to " + most);
    }

    /**
     * Reads the contents of the messages of the source topic, as text, in order. A content that is not UTF-8 is an error
     * of its message, as one of the program's own code; {@link #write} of this stream as it is decodes nothing.
     */
    public DataStream<String> texts() {
        texts = read(source(FlinkMqttSource.texts()).build());
        return texts;
    }

    /** Reads the contents of the messages of the source topic, as they are, in order. */
    public DataStream<byte[]> bytes() {
        return read(source(FlinkMqttSource.bytes()).build());
    }

    /** Reads the messages of the source topic, in order. */
    public DataStream<Received> messages() {
        return read(source(FlinkMqttSource.messages()).build());
    }

    /**
     * Does the same for programs in Python: rows of {@code topic, value, key, timestamp}; see
     * {@link FlinkMqttSource#rows}.
     */
    public DataStream<Row> rows() {
        return read(source(FlinkMqttSource.rows()).build());
    }

    private <T> DataStream<T> read(FlinkMqttSource<T> source) {
        return environment.fromSource(source, WatermarkStrategy.noWatermarks(), "source").uid("source")
                .setParallelism(1);
    }

    /** Prepares a source with broker, login, topic, session and fence of this job, for a program that sets more. */
    public <T> FlinkMqttSourceBuilder<T> source(FlinkMqttSourceBuilder<T> builder) {
        builder.broker(required("source-broker")).topic(required("source-topic"))
                .clientId(argument("session", "speck-" + name))
                .login(login("source", "username"), login("source", "password"))
                .passwordFile(login("source", "password-file"))
                .sasl(login("source", "sasl"))
                .tls(tls("source"))
                .onError(onError())
                .checkpoints(setting("speck.checkpoints"))
                .savepoints(setting("speck.savepoints"))
                .spool(setting("speck.spool"))
                .failOnDataLoss(false); // writers refill a session that a broker lost
        String fence = argument("fence-topic", null);
        long attempt = number("attempt", -1, -1, Long.MAX_VALUE);
        return fence == null ? builder : builder.fence(fence, attempt);
    }

    private OnError onError() {
        return OnError.of(setting("speck.on-error"), setting("speck.park-topic"), name);
    }

    /**
     * Declares that no operator fails on a message but those chained to the source, so that {@code on_error: skip} and
     * {@code park} hold for a program with keys too.
     */
    public void onlySourceChainFails() {
        laterOperatorsSafe = true;
    }

    /** Writes texts to the sink topic. The stream of {@link #texts} as it is passes on any contents, unchanged. */
    public void write(DataStream<String> elements) {
        boolean unchanged = texts != null && elements.getTransformation() == texts.getTransformation() && !isTextUsed();
        if (unchanged) {
            relayed = true;
            writeBytes(bytes());
        } else {
            write(elements, sink(FlinkMqttSink.texts()).build());
        }
    }

    /** Writes contents to the sink topic, as they are. */
    public void writeBytes(DataStream<byte[]> contents) {
        write(contents, sink(FlinkMqttSink.bytes()).build());
    }

    private boolean isTextUsed() {
        return environment.getTransformations().stream()
                .anyMatch(each -> each.getInputs().contains(texts.getTransformation()));
    }

    /** Writes to a sink that {@link #sink} prepared. */
    public <T> void write(DataStream<T> elements, FlinkMqttSink<T> sink) {
        elements.sinkTo(sink).name("sink").uid("sink").setParallelism(elements.getParallelism());
    }

    /** Prepares a sink with broker, login, topic and stamps of this job, for a program that sets more. */
    public <T> FlinkMqttSinkBuilder<T> sink(FlinkMqttSinkBuilder<T> builder) {
        return builder.broker(required("sink-broker")).topic(required("sink-topic")).job(name).flushTimeout(FLUSH_TIMEOUT)
                .login(login("sink", "username"), login("sink", "password"))
                .passwordFile(login("sink", "password-file"))
                .sasl(login("sink", "sasl"))
                .tls(tls("sink"))
                .retain(Boolean.parseBoolean(setting("speck.retain")))
                .onError(onError(), new LoginFields(argument("source-broker", null), login("source", "username"),
                        login("source", "password"), login("source", "password-file"), tls("source"),
                        login("source", "sasl")))
                .spool(setting("speck.spool"))
                .origin(setting("speck.lineage"))
                .incarnationNumber(numberOf("speck.incarnation"))
                .originNumber(numberOf("speck.origin"));
    }

    private TlsFiles tls(String side) {
        return new TlsFiles(login(side, "ca-file"), login(side, "certificate-file"), login(side, "key-file"));
    }

    private String login(String side, String field) {
        return setting("speck." + side + "." + field);
    }

    private long numberOf(String key) {
        ConfigOption<Long> option = ConfigOptions.key(key).longType().defaultValue(0L);
        return environment.getConfiguration().get(option);
    }

    private String setting(String key) {
        ConfigOption<String> option = ConfigOptions.key(key).stringType().noDefaultValue();
        return environment.getConfiguration().get(option);
    }

    /**
     * Runs the program.
     *
     * @throws InvalidSettingException as {@link #ready} does
     */
    public void execute() throws Exception {
        ready();
        environment.execute(name);
    }

    /**
     * Checks arguments and checkpoints; for a program that runs in another way than by {@link #execute}, just before.
     *
     * @throws InvalidSettingException if the program does not read an argument, checkpoints are off, or messages are to
     *     be left out on which operators fail that are not chained to the source
     */
    public void ready() {
        arguments.done();
        if (relayed && isTextUsed()) {
            throw new InvalidSettingException("texts() was written as it is before it was given to an operator"
                    + " (expected write as the last use of it)");
        }
        if (!environment.getCheckpointConfig().isCheckpointingEnabled()) {
            throw new InvalidSettingException("checkpoints are off, so that no message would ever be acknowledged"
                    + " (set execution.checkpointing.interval)");
        }
        checkChain();
    }

    /** Only the operators chained to the source fail while it hands a message on, so that the message is known. */
    private void checkChain() {
        if (laterOperatorsSafe || onError().fails()) {
            return;
        }
        List<String> others = new ArrayList<>();
        for (JobVertex vertex : environment.getStreamGraph(false).getJobGraph().getVertices()) {
            if (!vertex.isInputVertex()) {
                others.add("'" + vertex.getName() + "'");
            }
        }
        if (!others.isEmpty()) {
            throw new InvalidSettingException("on_error: skip and park hold for operators chained to the source, and "
                    + String.join(", ", others) + " is not (expected a program without keyBy, or on_error: fail)");
        }
    }
}
