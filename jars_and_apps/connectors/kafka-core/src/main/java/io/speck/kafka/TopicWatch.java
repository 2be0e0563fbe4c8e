package io.speck.kafka;

import io.speck.mqtt.BrokerException;
import io.speck.mqtt.SourceSettings;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/**
 * Detects that the topic being read was deleted and created again, or has further partitions. The consumer reports no error
 * once the new topic has as many messages as had been read of the former one, and reads only the partitions that it was
 * assigned. Not thread-safe.
 */
final class TopicWatch implements AutoCloseable {
    private static final long PERIOD_NANOS = TimeUnit.SECONDS.toNanos(2);

    /** A topic, by the id that another topic of the same name does not have. */
    record Topic(String id, int partitions) {
        /** Returns its partitions from this number on. */
        List<TopicPartition> from(String name, int first) {
            return IntStream.range(first, partitions).mapToObj(each -> new TopicPartition(name, each)).toList();
        }
    }

    private final SourceSettings settings;
    private final Supplier<CompletableFuture<Topic>> broker;
    private final Runnable end;
    /** A broker that lags behind the others may still describe a former topic. */
    private final Set<String> former = new HashSet<>();
    private Topic present;
    private CompletableFuture<Topic> asked;
    private long askedNanos;

    /**
     * @param broker asks for the topic
     * @param end ends the connection
     */
    TopicWatch(SourceSettings settings, Supplier<CompletableFuture<Topic>> broker, Runnable end) {
        this.settings = settings;
        this.broker = broker;
        this.end = end;
    }

    static TopicWatch of(SourceSettings settings) {
        Admin admin = Clients.admin(settings);
        return new TopicWatch(settings, () -> described(admin, settings.topic()), () -> admin.close(Duration.ZERO));
    }

    private static CompletableFuture<Topic> described(Admin admin, String topic) {
        return admin.describeTopics(List.of(topic)).topicNameValues().get(topic).toCompletionStage()
                .thenApply(TopicWatch::topic).toCompletableFuture();
    }

    private static Topic topic(TopicDescription description) {
        return new Topic(description.topicId().toString(), description.partitions().size());
    }

    /**
     * Asks for the topic of the name, and waits for the answer.
     *
     * @throws BrokerException if there is none, or if the broker does not say
     */
    Topic ask() throws InterruptedException {
        asked = null; // its answer may be older
        askedNanos = System.nanoTime();
        try {
            return newest(broker.get().get());
        } catch (ExecutionException e) {
            throw translated(e.getCause());
        }
    }

    private BrokerException translated(Throwable error) {
        if (error instanceof UnknownTopicOrPartitionException) {
            return new BrokerException("broker " + settings.login() + " has no topic '" + settings.topic()
                    + "' (apply the composition again, which makes it)", true);
        }
        boolean refused = error instanceof AuthorizationException || error instanceof AuthenticationException;
        String text = "broker " + settings.login() + ": topic '" + settings.topic() + "': " + error.getMessage();
        return refused ? new BrokerException(text, true) : new BrokerException(text, error);
    }

    /** Returns the topic of the name as of some seconds ago, without waiting; the one that is read without an answer. */
    Topic look() {
        if (asked != null && asked.isDone()) {
            Topic found = asked.exceptionally(error -> present).join(); // asked again later
            asked = null;
            return newest(found);
        }
        if (asked == null && System.nanoTime() - askedNanos > PERIOD_NANOS) {
            asked = broker.get();
            askedNanos = System.nanoTime();
        }
        return present;
    }

    private Topic newest(Topic found) {
        return present != null && former.contains(found.id()) ? present : found;
    }

    /** True for another topic than the one that is read. */
    boolean isAnother(Topic topic) {
        return !topic.id().equals(present.id());
    }

    /** Takes a topic for the one that is read from now on. */
    void reads(Topic topic) {
        if (present != null && isAnother(topic)) {
            former.add(present.id());
        }
        present = topic;
    }

    /** The topic that is read. */
    Topic present() {
        return present;
    }

    @Override
    public void close() {
        end.run();
    }
}
