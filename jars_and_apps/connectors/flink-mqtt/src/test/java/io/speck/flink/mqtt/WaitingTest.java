package io.speck.flink.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.Await;
import io.speck.mqtt.Topic;
import io.speck.mqtt.Wire;
import io.speck.mqtt.failure.OnError;
import io.speck.mqtt.stamp.CurrentInput;
import io.speck.mqtt.stamp.Stamp;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** An operator without state whose outputs wait for others: a restart reads their messages again. */
@Timeout(value = 120, threadMode = Timeout.ThreadMode.SEPARATE_THREAD)
class WaitingTest extends ClusterCase {
    private Wire wire;
    private Topic out;

    @BeforeEach
    void start() throws Exception {
        wire = new Wire(broker.url(), "out");
        out = new Topic(broker.url(), "out");
    }

    @AfterEach
    void stop() {
        out.close();
        wire.close();
    }

    /** Writes the texts of 8 messages as one, or of fewer if they may not wait; an empty text asks for it. */
    private static final class Grouped implements FlatMapFunction<String, String> {
        private static final long serialVersionUID = 1L;
        private static final int MOST = 8;

        private transient List<String> waiting;

        @Override
        public void flatMap(String text, Collector<String> to) {
            waiting = waiting == null ? new ArrayList<>() : waiting;
            if (!text.isEmpty()) {
                waiting.add(text);
            }
            CurrentInput input = CurrentInput.ofThread();
            if (!waiting.isEmpty() && (text.isEmpty() || waiting.size() == MOST || !input.mayWait())) {
                to.collect(String.join(" ", waiting));
                waiting.clear();
            }
            input.hold(!waiting.isEmpty());
        }
    }

    /** Fails on a message for as long as a service is away. */
    private static final class Service implements MapFunction<String, String> {
        private static final long serialVersionUID = 1L;
        private static final AtomicInteger FAILURES = new AtomicInteger();
        private static volatile boolean away;

        @Override
        public String map(String text) {
            if (away && text.equals("1")) {
                FAILURES.incrementAndGet();
                throw new IllegalStateException("no answer");
            }
            return text;
        }
    }

    private JobID run(long checkpointMillis, String savepoint) throws Exception {
        return run(checkpointMillis, savepoint, OnError.FAIL, new Failing());
    }

    private JobID run(long checkpointMillis, String savepoint, OnError onError, MapFunction<String, String> code)
            throws Exception {
        StreamExecutionEnvironment environment = Cluster.environment(checkpointMillis, savepoint);
        environment.fromSource(FlinkMqttSource.texts().broker(broker.url()).topic("in").clientId("job").onError(onError)
                        .fence("speck/fence/job", 1).build(), WatermarkStrategy.noWatermarks(), "in").uid("in")
                .map(code).flatMap(new Grouped())
                .sinkTo(FlinkMqttSink.texts().broker(broker.url()).topic("out").job("job").incarnation("edge").build())
                .uid("out");
        return cluster.run(environment);
    }

    private static List<String> numbers(int from, int to) {
        return IntStream.range(from, to).mapToObj(Integer::toString).toList();
    }

    private List<String> received() {
        return out.all().stream().flatMap(each -> List.of(each.split(" ")).stream()).toList();
    }

    @Test
    void failuresAndStopsLoseAndDoubleNothing() throws Exception {
        AtomicInteger failures = Failing.times(6, 37);
        JobID job = run(OFTEN, null);
        for (int from = 0; from < 300; from += 50) {
            Topic.publish(broker.url(), "in", numbers(from, from + 50));
            Thread.sleep(OFTEN); // checkpoints fall among waiting outputs
        }
        Await.until("most", () -> received().size() >= 296);
        String savepoint = cluster.stop(job);
        JobID next = run(OFTEN, savepoint);
        Topic.publish(broker.url(), "in", numbers(300, 404));
        Await.until("all", () -> received().size() >= 404);
        assertTrue(failures.get() < 6, "it never failed");
        assertEquals(numbers(0, 404), received());
        assertRepetitionsAreEqual();
        cluster.cancel(next);
    }

    private void assertRepetitionsAreEqual() {
        Map<Stamp, String> texts = new HashMap<>();
        for (Wire.Published each : wire.seen()) {
            assertEquals(each.text(), texts.computeIfAbsent(each.stamp(), any -> each.text()));
        }
    }

    @Test
    void aWaitThatNoMessageEndsHasTheSameEndAfterFailures() throws Exception {
        AtomicInteger failures = Failing.times(25, 4);
        Random random = new Random(7);
        JobID job = run(OFTEN, null);
        int sent = 0;
        for (int round = 0; round < 40; round++) {
            int count = 1 + random.nextInt(5);
            Topic.publish(broker.url(), "in", numbers(sent, sent + count));
            sent += count;
            Thread.sleep(random.nextInt((int) (4 * OFTEN))); // waits end in some of them
        }
        int all = sent;
        Await.until("all", () -> received().size() >= all);
        assertTrue(failures.get() < 25, "it never failed");
        assertEquals(numbers(0, all), received());
        assertTrue(out.all().stream().anyMatch(each -> each.split(" ").length < 8), "no wait ended early");
        assertTrue(out.all().stream().anyMatch(each -> each.contains(" ")), "nothing waited");
        assertRepetitionsAreEqual();
        cluster.cancel(job);
    }

    @Test
    void aWaitThatHasEndedEndsThereAgainAfterAFailure() throws Exception {
        Failing.times(0, 1);
        JobID job = run(20 * OFTEN, null); // it fails before the checkpoint that follows the end
        Topic.publish(broker.url(), "in", numbers(0, 3));
        Await.until("the end of the wait", () -> received().size() == 3);
        AtomicInteger failures = Failing.times(1, 1);
        Topic.publish(broker.url(), "in", numbers(3, 12));
        Await.until("all", () -> received().size() >= 12);
        assertEquals(0, failures.get());
        assertEquals(numbers(0, 12), received());
        assertRepetitionsAreEqual();
        cluster.cancel(job);
    }

    @Test
    void aDrainEndsTheWait() throws Exception {
        try (Topic drained = new Topic(broker.url(), "speck/drained/job")) {
            Failing.times(0, 1);
            JobID job = run(OFTEN, null);
            Topic.publish(broker.url(), "in", numbers(0, 11));
            Await.until("the first 8", () -> received().size() >= 8);
            Topic.publish(broker.url(), "speck/drain/job", List.of("marker"));
            assertEquals(List.of("marker"), drained.take(1));
            assertEquals(numbers(0, 11), received());
            Topic.publish(broker.url(), "in", numbers(11, 19));
            Await.until("the next 8", () -> received().size() == 19);
            cluster.cancel(job);
        }
    }

    @Test
    void aMessageWithAStampEndsTheWaitBeforeIt() throws Exception {
        Failing.times(0, 1);
        JobID job = run(NEVER, null);
        Topic.publish(broker.url(), "in", numbers(0, 3));
        Topic.publishStamped(broker.url(), "in", "up", "r/0/0/5", "3");
        Await.until("all", () -> received().size() == 4);
        assertEquals(List.of("0 1 2", "3"), out.all());
        assertEquals(List.of(2L, 5L), wire.seen().stream().map(each -> each.stamp().index()).toList());
        cluster.cancel(job);
    }

    @Test
    void aMessageThatIsTriedAgainBehindTheEndOfAWaitHasANameOfItsOwn() throws Exception {
        Service.away = true;
        JobID job = run(NEVER, null, OnError.of("skip", null, "job"), new Service());
        Topic.publish(broker.url(), "in", numbers(0, 2));
        Await.until("it has failed twice", () -> Service.FAILURES.get() == 2);
        cluster.checkpoint(job);
        assertEquals(List.of("0"), wire.take(1).stream().map(Wire.Published::text).toList());
        Service.away = false;
        cluster.checkpoint(job);
        assertEquals(List.of("0", "1"), wire.take(2).stream().map(Wire.Published::text).toList());
        assertEquals(List.of(0L, 1L), wire.take(2).stream().map(each -> each.stamp().index()).toList());
        cluster.cancel(job);
    }
}
