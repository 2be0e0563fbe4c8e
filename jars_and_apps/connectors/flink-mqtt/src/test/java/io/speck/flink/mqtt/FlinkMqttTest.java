package io.speck.flink.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.CuttingProxy;
import io.speck.mqtt.LoginFields;
import io.speck.mqtt.Mosquitto;
import io.speck.mqtt.TlsFiles;
import io.speck.mqtt.Topic;
import io.speck.mqtt.Wire;
import io.speck.mqtt.failure.OnError;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Jobs that read and write, in a real Flink, at a real Mosquitto. */
@Timeout(value = 60, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class FlinkMqttTest extends ClusterCase {
    private CuttingProxy proxy;
    private Topic out;

    @BeforeEach
    void start() throws Exception {
        proxy = new CuttingProxy(broker.port());
        out = new Topic(broker.url(), "out");
    }

    @AfterEach
    void stop() throws Exception {
        out.close();
        proxy.close();
    }

    private FlinkMqttSourceBuilder<String> source() {
        return FlinkMqttSource.texts().broker(proxy.url()).topic("in").clientId("job");
    }

    private FlinkMqttSinkBuilder<String> sink() {
        return FlinkMqttSink.texts().broker(proxy.url()).topic("out").job("job");
    }

    private DataStream<String> read(StreamExecutionEnvironment environment) {
        return environment.fromSource(source().build(), WatermarkStrategy.noWatermarks(), "in").uid("in");
    }

    private JobID forward(StreamExecutionEnvironment environment) throws Exception {
        read(environment).sinkTo(sink().build()).uid("out");
        return cluster.run(environment);
    }

    private void publish(List<String> payloads) throws Exception {
        Topic.publish(broker.url(), "in", payloads);
    }

    private static List<String> numbers(int from, int to) {
        return IntStream.range(from, to).mapToObj(Integer::toString).toList();
    }

    /** Returns the messages that the broker still held for the job's session. */
    private List<String> drain() throws Exception {
        return Topic.drain(broker.url(), "job", "in");
    }

    @Test
    void messagesGoThroughInOrderAndAreAcknowledgedByACheckpoint() throws Exception {
        JobID job = forward(Cluster.environment(NEVER, null));
        publish(numbers(0, 1000));
        assertEquals(numbers(0, 1000), out.take(1000));
        cluster.cancel(job);
        assertEquals(numbers(0, 1000), drain());

        JobID again = forward(Cluster.environment(NEVER, null));
        publish(numbers(0, 1000));
        out.take(2000);
        cluster.checkpoint(again);
        cluster.awaitIdle(again);
        publish(List.of("later"));
        out.take(2001);
        cluster.cancel(again);
        assertEquals(List.of("later"), drain());
    }

    @Test
    void aJobThatFailsBetweenCheckpointsCountsEachMessageOnce() throws Exception {
        StreamExecutionEnvironment environment = Cluster.environment(OFTEN, null);
        AtomicInteger failures = Failing.times(5, 700);
        read(environment).map(new Failing()).sinkTo(sink().build()).uid("out");
        JobID job = cluster.run(environment);
        List<String> sent = new ArrayList<>();
        while (failures.get() > 0) {
            publish(numbers(sent.size(), sent.size() + 300));
            sent.addAll(numbers(sent.size(), sent.size() + 300));
        }
        publish(List.of("end"));
        sent.add("end");
        assertEquals(sent, out.take(sent.size()));
        cluster.cancel(job);
        assertEquals(sent, out.all());
    }

    @Test
    void aStoppedJobContinuesFromItsSavepoint() throws Exception {
        JobID job = forward(Cluster.environment(OFTEN, null));
        publish(numbers(0, 500));
        out.take(500);
        String savepoint = cluster.stop(job);
        assertEquals(List.of(), drain());
        publish(numbers(500, 900));
        JobID next = forward(Cluster.environment(OFTEN, savepoint));
        publish(numbers(900, 1000));
        assertEquals(numbers(0, 1000), out.take(1000));
        cluster.cancel(next);
        assertEquals(numbers(0, 1000), out.all());
    }

    @Test
    void aStampOfElevenThousandEmojiStopsNoJobAndSeenStampsAreInItsState() throws Exception {
        JobID job = forward(Cluster.environment(OFTEN, null));
        Topic.publishStamped(broker.url(), "in", "\ud83d\ude00".repeat(11_000), "r/0/0/0", "1");
        Topic.publishStamped(broker.url(), "in", "job", "r/0/0/0", "2");
        Topic.publishStamped(broker.url(), "in", "job", "r/0/0/5", "7");
        out.take(3);
        String savepoint = cluster.stop(job);
        Topic.publishStamped(broker.url(), "in", "job", "r/0/0/0", "2");
        Topic.publishStamped(broker.url(), "in", "job", "r/0/0/1", "3");
        Topic.publishStamped(broker.url(), "in", "job", "r/0/0/5", "7");
        Topic.publishStamped(broker.url(), "in", "job", "r/0/0/6", "8");
        JobID next = forward(Cluster.environment(OFTEN, savepoint));
        assertEquals(List.of("1", "2", "7", "3", "8"), out.take(5));
        cluster.cancel(next);
        assertEquals(5, out.all().size());
    }

    @Test
    void aCutConnectionIsReestablishedWithoutLossOrDuplicates() throws Exception {
        JobID job = forward(Cluster.environment(OFTEN, null));
        for (int i = 0; i < 10; i++) {
            publish(numbers(i * 200, i * 200 + 200));
            proxy.cut();
        }
        assertEquals(numbers(0, 2000), out.take(2000));
        cluster.cancel(job);
        assertEquals(numbers(0, 2000), out.all());
    }

    @Test
    void aNewerAttemptEndsTheJobForGood() throws Exception {
        fence(3);
        StreamExecutionEnvironment environment = Cluster.environment(OFTEN, null);
        environment.fromSource(source().fence("fences/job", 3).build(), WatermarkStrategy.noWatermarks(), "in")
                .sinkTo(sink().build());
        JobID job = cluster.run(environment);
        publish(List.of("mine"));
        out.take(1);
        fence(4);
        proxy.cut();
        String failure = cluster.failure(job);
        assertTrue(failure.contains("taken over by attempt 4"), failure);
    }

    private void fence(long attempt) throws Exception {
        Topic.retain(broker.url(), "fences/job", "{\"attempt\": " + attempt + "}");
    }

    @Test
    void aSessionThatTheBrokerLostEndsTheJob() throws Exception {
        JobID job = forward(Cluster.environment(OFTEN, null));
        publish(numbers(0, 10));
        out.take(10);
        String savepoint = cluster.stop(job);
        Topic.forget(broker.url(), "job");
        String failure = cluster.failure(forward(Cluster.environment(OFTEN, savepoint)));
        assertTrue(failure.contains("no such session any more") && failure.contains("failOnDataLoss"), failure);

        StreamExecutionEnvironment environment = Cluster.environment(OFTEN, savepoint);
        environment.fromSource(source().failOnDataLoss(false).build(), WatermarkStrategy.noWatermarks(), "in").uid("in")
                .sinkTo(sink().build()).uid("out");
        JobID forgiving = cluster.run(environment);
        cluster.awaitConnected(forgiving);
        publish(List.of("new"));
        assertEquals("new", out.take(11).get(10));
        cluster.cancel(forgiving);
    }

    @Test
    void keyedWorkInTwoSubtasksCountsOnceThroughFailures() throws Exception {
        StreamExecutionEnvironment environment = Cluster.environment(OFTEN, null);
        AtomicInteger failures = Failing.times(4, 500);
        DataStream<String> in = read(environment).keyBy(text -> text.split(" ")[0])
                .map(new Failing()).setParallelism(2);
        in.sinkTo(sink().build()).uid("out").setParallelism(2);
        JobID job = cluster.run(environment);
        List<String> sent = new ArrayList<>();
        while (failures.get() > 0) {
            List<String> more = numbers(sent.size(), sent.size() + 300).stream()
                    .map(each -> "key-" + Integer.parseInt(each) % 7 + " " + each).toList();
            publish(more);
            sent.addAll(more);
        }
        assertEquals(new HashSet<>(sent), new HashSet<>(out.take(sent.size())));
        cluster.checkpoint(job);
        cluster.cancel(job);
        assertEquals(sent.size(), out.all().size());
    }

    @Test
    void aSourceWithIdleSubtasksReadsAndTakesCheckpoints() throws Exception {
        StreamExecutionEnvironment environment = Cluster.environment(NEVER, null);
        environment.setParallelism(3);
        environment.fromSource(source().build(), WatermarkStrategy.noWatermarks(), "in").sinkTo(sink().build());
        JobID job = cluster.run(environment);
        publish(numbers(0, 50));
        assertEquals(numbers(0, 50), out.take(50));
        cluster.awaitCheckpoint(job);
        cluster.awaitIdle(job);
        cluster.cancel(job);
        assertEquals(List.of(), drain());
    }

    @Test
    void aCheckpointWaitsForTheSinksBroker() throws Exception {
        JobID job = forward(Cluster.environment(NEVER, null));
        publish(numbers(0, 5));
        out.take(5);
        try (CuttingProxy away = new CuttingProxy(broker.port())) {
            cluster.cancel(job);
            drain();
            away.refuse(true);
            StreamExecutionEnvironment environment = Cluster.environment(NEVER, null);
            read(environment).sinkTo(FlinkMqttSink.texts().broker(away.url()).topic("out").job("job").build());
            JobID blocked = cluster.run(environment);
            cluster.awaitConnected(blocked);
            publish(List.of("waits"));
            cluster.awaitMetric(blocked, "received", 1);
            CompletableFuture<Void> checkpoint = cluster.checkpointLater(blocked);
            assertThrows(TimeoutException.class, () -> checkpoint.get(2, TimeUnit.SECONDS));
            assertEquals(5, out.all().size());
            away.refuse(false);
            checkpoint.get(60, TimeUnit.SECONDS);
            assertEquals("waits", out.take(6).get(5));
            cluster.awaitIdle(blocked);
            cluster.cancel(blocked);
        }
        assertEquals(List.of(), drain());
    }

    @Test
    void wholeMessagesCarryTopicAndKey() throws Exception {
        StreamExecutionEnvironment environment = Cluster.environment(OFTEN, null);
        environment.fromSource(FlinkMqttSource.messages().broker(broker.url()).topic("keyed/#").clientId("keyed").build(),
                        WatermarkStrategy.noWatermarks(), "in")
                .map(message -> message.topic() + " " + message.key() + " " + message.text())
                .sinkTo(FlinkMqttSink.texts().broker(broker.url()).topicOf(text -> "out").key(String::toUpperCase).build());
        JobID job = cluster.run(environment);
        cluster.awaitConnected(job);
        Topic.publish(broker.url(), "keyed/1", "k", "value");
        Topic.publish(broker.url(), "keyed/2", null, "other");
        assertEquals(List.of("keyed/1 k value", "keyed/2 null other"), out.take(2));
        cluster.cancel(job);
    }

    private JobID doubled(FlinkMqttSource<String> source) throws Exception {
        StreamExecutionEnvironment environment = Cluster.environment(OFTEN, null);
        environment.configure(Configuration.fromMap(Map.of("restart-strategy.type", "none")));
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "in")
                .map(text -> Integer.toString(2 * Integer.parseInt(text))).sinkTo(sink().build());
        return cluster.run(environment);
    }

    @Test
    void messagesOnWhichTheCodeFailsAreParkedAndAcknowledged() throws Exception {
        try (Topic parked = new Topic(broker.url(), "parked")) {
            JobID job = doubled(source().onError(OnError.of("park", "parked", "job")).build());
            publish(List.of("1", "one", "2", "two", "3"));
            assertEquals(List.of("2", "4", "6"), out.take(3));
            assertEquals(List.of("one", "two"), parked.take(2));
            cluster.awaitMetric(job, "parked", 2);
            cluster.checkpoint(job);
            cluster.awaitIdle(job);
            cluster.cancel(job);
            assertEquals(List.of(), drain());
        }
    }

    private JobID withService(AtomicInteger answers) throws Exception {
        return withService(answers, null);
    }

    private JobID withService(AtomicInteger answers, String savepoint) throws Exception {
        StreamExecutionEnvironment environment = Cluster.environment(OFTEN, savepoint);
        environment.fromSource(source().fence("speck/fence/job", 1).onError(OnError.of("skip", null, "job")).build(),
                WatermarkStrategy.noWatermarks(), "in").uid("in").map(new Service()).sinkTo(sink().build()).uid("out");
        Service.ANSWERS.set(answers.get());
        return cluster.run(environment);
    }

    /** A map that asks a service which answers the first requests alone, until it is back. */
    private static final class Service implements MapFunction<String, String> {
        private static final long serialVersionUID = 1L;
        private static final AtomicInteger ANSWERS = new AtomicInteger();

        @Override
        public String map(String text) {
            if (text.equals("poison") || ANSWERS.getAndUpdate(left -> Math.max(0, left - 1)) == 0) {
                throw new IllegalStateException("no answer");
            }
            return text;
        }
    }

    @Test
    void noMessageIsLeftOutWhileAServiceIsAwayForAll() throws Exception {
        JobID job = withService(new AtomicInteger(10));
        // Apart from the others: on a failure, the sink drops what it has not sent, and there are no more answers.
        publish(numbers(0, 10));
        out.take(10);
        publish(numbers(10, 200));
        Thread.sleep(1_000); // several checkpoints and restarts
        Service.ANSWERS.set(Integer.MAX_VALUE);
        publish(List.of("poison", "200"));
        // A set: a message may come before those that failed, if the service came back when it was tried.
        assertEquals(Set.copyOf(numbers(0, 201)), Set.copyOf(out.take(201)));
        cluster.awaitMetric(job, "skipped", 1);
        cluster.checkpoint(job);
        cluster.cancel(job);
        assertEquals(201, out.all().size());
    }

    @Test
    void noMessageIsLeftOutWhicheverIsTriedWhenAServiceComesBack() throws Exception {
        Failing.times(0, 1);
        StreamExecutionEnvironment environment = Cluster.environment(NEVER, null);
        environment.fromSource(source().onError(OnError.of("skip", null, "job")).build(), WatermarkStrategy.noWatermarks(),
                "in").uid("in").map(new Failing()).sinkTo(sink().build()).uid("out");
        JobID job = cluster.run(environment);
        int sent = 0;
        for (int failures = 1; failures <= 30; failures++) {
            Failing.times(failures, 1);
            publish(numbers(sent, sent + 12));
            sent += 12;
            assertEquals(Set.copyOf(numbers(0, sent)), Set.copyOf(out.take(sent)));
        }
        cluster.cancel(job);
        assertEquals(sent, out.all().size());
    }

    @Test
    void aPoisonousMessageThatIsTheLastOneIsHeldUntilAnotherHasPassed() throws Exception {
        JobID job = withService(new AtomicInteger(Integer.MAX_VALUE));
        publish(List.of("1", "poison"));
        assertEquals(List.of("1"), out.take(1));
        cluster.checkpoint(job);
        cluster.checkpoint(job);
        assertEquals(List.of(0L, 1L), List.of(cluster.gauge(job, "skipped"), cluster.gauge(job, "queued")));
        publish(List.of("2"));
        assertEquals(List.of("1", "2"), out.take(2));
        cluster.awaitMetric(job, "skipped", 1);
        cluster.checkpoint(job);
        cluster.awaitIdle(job);
        cluster.cancel(job);
        assertEquals(List.of(), drain());
    }

    @Test
    void aSingleMessageWaitsForTheServiceAndIsReadAgainByTheNextRun() throws Exception {
        JobID job = withService(new AtomicInteger(1));
        publish(List.of("1", "2"));
        assertEquals(List.of("1"), out.take(1));
        cluster.awaitMetric(job, "received", 2);
        cluster.checkpoint(job);
        cluster.checkpoint(job);
        JobID next = withService(new AtomicInteger(0), cluster.stop(job));
        cluster.awaitMetric(next, "queued", 1);
        cluster.checkpoint(next);
        Service.ANSWERS.set(Integer.MAX_VALUE);
        assertEquals(List.of("1", "2"), out.take(2)); // though no further message comes
        cluster.checkpoint(next);
        cluster.awaitIdle(next);
        cluster.cancel(next);
        assertEquals(List.of(), drain());
    }

    @Test
    void aDrainLeavesASingleMessageOut() throws Exception {
        try (Topic drained = new Topic(broker.url(), "speck/drained/job")) {
            JobID job = withService(new AtomicInteger(Integer.MAX_VALUE));
            publish(List.of("1", "poison"));
            assertEquals(List.of("1"), out.take(1));
            Topic.publish(broker.url(), "speck/drain/job", List.of("now"));
            assertEquals(List.of("now"), drained.take(1));
            cluster.awaitMetric(job, "skipped", 1);
            cluster.cancel(job);
        }
    }

    @Test
    void messagesOnWhichTheCodeFailsAreSkipped() throws Exception {
        JobID job = doubled(source().onError(OnError.of("skip", null, "job")).build());
        publish(List.of("one", "2"));
        assertEquals(List.of("4"), out.take(1));
        cluster.awaitMetric(job, "skipped", 1);
        cluster.cancel(job);
    }

    @Test
    void aResultThatTheBrokerDoesNotAcceptIsParkedAndAllOthersArriveOnce() throws Exception {
        try (Mosquitto limited = Mosquitto.start(folder.resolve("limited"), "max_packet_size 20000");
                Topic arrived = new Topic(limited.url(), "out"); Wire wire = new Wire(limited.url(), "out");
                Topic parked = new Topic(broker.url(), "parked")) {
            StreamExecutionEnvironment environment = Cluster.environment(OFTEN, null);
            read(environment).map(text -> text.equals("17") ? "x".repeat(90_000) : text)
                    .sinkTo(FlinkMqttSink.texts().broker(limited.url()).topic("out").job("job")
                            .onError(OnError.of("park", "parked", "job"),
                                    new LoginFields(broker.url(), null, null, null, TlsFiles.NONE)).build());
            JobID job = cluster.run(environment);
            publish(numbers(0, 40));
            assertEquals(39, arrived.take(39).size());
            assertEquals(List.of("x".repeat(90_000)), parked.take(1));
            cluster.awaitMetric(job, "parkedResults", 1);
            cluster.checkpoint(job);
            cluster.awaitIdle(job);
            cluster.cancel(job);
            assertEquals(List.of(39, 1), List.of(wire.seen().size(), parked.all().size()));
            assertEquals(List.of(), drain());
        }
    }

    @Test
    void resultsAreRetainedForReadersThatComeLater() throws Exception {
        StreamExecutionEnvironment environment = Cluster.environment(OFTEN, null);
        read(environment).sinkTo(sink().retain(true).build());
        JobID job = cluster.run(environment);
        publish(List.of("1", "2"));
        out.take(2);
        try (Topic late = new Topic(broker.url(), "+")) {
            assertEquals(List.of("2"), late.take(1));
        }
        cluster.cancel(job);
    }

    @Test
    void aJobThatFailsNamesTheMessage() throws Exception {
        JobID job = doubled(source().build());
        publish(List.of("1", "one"));
        String failure = cluster.failure(job);
        assertTrue(failure.contains("on message 1 of topic 'in': NumberFormatException: For input string"), failure);
    }
}
