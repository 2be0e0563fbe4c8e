package io.speck.flink.mqtt;

import io.speck.connector.BrokerProvider;
import io.speck.connector.Brokers;
import io.speck.connector.reader.SourceMetrics;
import io.speck.mqtt.Received;
import io.speck.mqtt.SinkSettings;
import io.speck.mqtt.SourceSettings;
import io.speck.mqtt.failure.Blame;
import io.speck.mqtt.failure.Cause;
import io.speck.mqtt.failure.FailedMessageException;
import io.speck.mqtt.failure.LeftOut;
import io.speck.mqtt.failure.OnError;
import io.speck.mqtt.failure.Suspects;
import io.speck.mqtt.stamp.CurrentInput;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.BooleanSupplier;
import java.util.function.ToLongFunction;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.metrics.groups.SourceReaderMetricGroup;
import org.apache.flink.util.function.SerializableFunction;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A subtask of the source: it reads if it has the split, and is finished otherwise. */
final class MqttSourceReader<T> implements SourceReader<T, MqttSplit> {
    private static final Logger LOG = LoggerFactory.getLogger(MqttSourceReader.class);
    /** A chain has one source. */
    private static final int ONLY_SOURCE = 0;

    private final SourceSettings settings;
    private final SerializableFunction<Received, T> format;
    private final SourceReaderContext context;
    private final CompletableFuture<Void> assigned = new CompletableFuture<>();
    private volatile SessionReader reader;
    private CurrentInput input;
    private final BooleanSupplier waiting = () -> reader.mayHold();
    private WaitEnd waitEnd;
    /** The last message that passed: another one may be tried again, and its outputs named after it then. */
    private Received last;
    private final OnError onError;
    private final SinkSettings parking;
    private final LeftOut leftOut;
    private final CheckpointNames checkpoints;
    private final Suspects<FailedMessage> suspects = new Suspects<>();
    /** After each checkpoint, since no message may come that shows that a service is back. */
    private boolean triesSuspects;

    MqttSourceReader(SourceSettings settings, SerializableFunction<Received, T> format, OnError onError,
            SinkSettings parking, CheckpointNames checkpoints, SourceReaderContext context) {
        this.checkpoints = checkpoints;
        this.settings = settings;
        this.format = format;
        this.onError = onError;
        this.parking = parking;
        this.leftOut = new LeftOut(onError, parking);
        this.context = context;
    }

    @Override
    public void start() {
        LibraryRelease.register(context.getUserCodeClassLoader());
        // Whoever wrote to the broker of this session may have been moved away since a power cut of the site.
        BrokerProvider broker = Brokers.of(settings.login());
        broker.takeOver(parking);
        input = CurrentInput.ofThread();
        input.hold(false);
        SourceReaderMetricGroup metrics = context.metricGroup();
        metrics.setPendingRecordsGauge(() -> reader == null ? 0 : reader.pending());
        gauge("queued", SourceMetrics::queued);
        gauge("bufferFull", each -> each.bufferFull() ? 1 : 0);
        gauge("received", SourceMetrics::received);
        gauge("receivedBytes", SourceMetrics::receivedBytes);
        gauge("receivedQos0", SourceMetrics::receivedQos0);
        gauge("redelivered", SourceMetrics::redelivered);
        gauge("duplicatesDropped", SourceMetrics::duplicatesDropped);
        context.metricGroup().gauge("duplicatesByRun", () -> reader == null ? "" : reader.metrics().runsText());
        gauge("collisions", SourceMetrics::collisions);
        gauge("changedRepetitions", SourceMetrics::changedRepetitions);
        gauge("badStamps", SourceMetrics::badStamps);
        gauge("reconnections", SourceMetrics::reconnections);
        gauge("lostSessions", SourceMetrics::lostSessions);
        gauge("lostMessages", SourceMetrics::lost);
        SourceMetrics.REASONS.forEach(reason -> gauge(reason, each -> each.lost(reason)));
        metrics.gauge("skipped", leftOut::skipped);
        metrics.gauge("parked", leftOut::parked);
        gauge("connected", each -> each.connected() ? 1 : 0);
        metrics.gauge("eventLoop", broker::eventLoop);
    }

    private void gauge(String name, ToLongFunction<SourceMetrics> value) {
        context.metricGroup().gauge(name, () -> reader == null ? 0L : value.applyAsLong(reader.metrics()));
    }

    @Override
    public void addSplits(List<MqttSplit> splits) {
        if (reader != null || splits.size() != 1) {
            throw new IllegalStateException("client '" + settings.clientId() + "' has one session, and not "
                    + splits.size() + " more");
        }
        waitEnd = new WaitEnd(splits.get(0).waitEnd());
        reader = new SessionReader(settings, splits.get(0));
        assigned.complete(null);
    }

    @Override
    public void notifyNoMoreSplits() {
        assigned.complete(null);
    }

    @Override
    public InputStatus pollNext(ReaderOutput<T> output) {
        if (reader == null) {
            return assigned.isDone() ? InputStatus.END_OF_INPUT : InputStatus.NOTHING_AVAILABLE;
        }
        if (isPaused()) {
            return InputStatus.NOTHING_AVAILABLE;
        }
        if (triesSuspects) {
            triesSuspects = false;
            trySuspects(output);
        }
        if (waitEnd.isAt(reader.position())) {
            if (holds()) {
                endWaiting(output);
            }
            waitEnd.end();
        }
        if (!reader.hasNext()) {
            return InputStatus.NOTHING_AVAILABLE;
        }
        Received next = reader.next();
        if (holds() && next.stamp() != null) {
            endWaiting(output); // rows are not named after a message that another session may have had as well
        }
        emit(next, output);
        return reader.hasNext() ? InputStatus.MORE_AVAILABLE : InputStatus.NOTHING_AVAILABLE;
    }

    private boolean isPaused() {
        return waitEnd.isAt(reader.position()) && !waitEnd.isRecorded();
    }

    private boolean holds() {
        return input.heldFrom() < Long.MAX_VALUE;
    }

    /** Lets an operator of the chain write the outputs that it holds back, as outputs of the last one that passed. */
    private void endWaiting(ReaderOutput<T> output) {
        input.begin(null, ONLY_SOURCE, last.offset(), last.hash());
        try {
            output.collect(format.apply(new Received(null, new byte[0], null, last.receivedMillis())),
                    last.receivedMillis());
        } finally {
            input.end();
        }
    }

    private void emit(Received next, ReaderOutput<T> output) {
        trySuspects(output);
        RuntimeException error = failure(next, waiting, output);
        if (error == null) {
            last = next;
            settle(output);
        } else {
            failed(next, error, output);
        }
    }

    /**
     * Names the message as the input of this thread while the operators chained to the source work on it.
     *
     * @param mayWait if outputs of the message may wait, if it has no stamp
     * @return the error with which they failed; null for none
     */
    private RuntimeException failure(Received next, BooleanSupplier mayWait, ReaderOutput<T> output) {
        input.begin(next.stamp(), ONLY_SOURCE, next.offset(), next.hash());
        if (next.stamp() == null) {
            input.mayWait(mayWait);
        }
        try {
            output.collect(format.apply(next), next.receivedMillis());
            return null;
        } catch (RuntimeException e) {
            return e;
        } finally {
            input.end();
        }
    }

    /**
     * Leaves a message out on which the operators chained to this source fail twice with the same error, or, if a service
     * may be the cause, once more after another message has passed. What they wrote of it before is written at each try,
     * and what they changed of their state is changed as often.
     *
     * @throws FailedMessageException if the job is to fail
     */
    private void failed(Received message, RuntimeException error, ReaderOutput<T> output) {
        Cause cause = Blame.of(error);
        if (cause == Cause.ELSEWHERE) {
            throw error;
        }
        FailedMessage failed = new FailedMessage(message, error);
        if (onError.fails()) {
            throw failed.exception();
        }
        RuntimeException second = failure(message, waiting, output);
        if (second != null && !Blame.same(error, second)) {
            throw second;
        }
        if (second == null) {
            last = message;
            settle(output);
        } else if (cause == Cause.MESSAGE) {
            leaveOut(failed);
        } else if (!suspects.add(failed)) {
            throw failed.exception();
        }
    }

    /** Finds out if the service is back that the suspects may have needed. */
    private void trySuspects(ReaderOutput<T> output) {
        if (!suspects.isEmpty() && triedAgain(suspects.first(), output) == null) {
            suspects.removeFirst();
            settle(output);
        }
    }

    /**
     * A message has passed, so that the service which the code may need is there: the suspects that fail now are the cause
     * themselves. Those that pass, as the service has just come back, are written behind that message.
     */
    private void settle(ReaderOutput<T> output) {
        while (!suspects.isEmpty()) {
            FailedMessage suspect = suspects.removeFirst();
            if (triedAgain(suspect, output) != null) {
                leaveOut(suspect);
            }
        }
    }

    /** Returns the error with which the code failed again, which is the same as before; null for none. */
    private RuntimeException triedAgain(FailedMessage suspect, ReaderOutput<T> output) {
        if (holds()) {
            endWaiting(output); // messages behind the suspect are not written under its name
        }
        RuntimeException again = failure(suspect.message(), () -> false, output);
        if (again != null && !Blame.same(suspect.error(), again)) {
            throw again;
        }
        return again;
    }

    private record FailedMessage(Received message, RuntimeException error) {
        FailedMessageException exception() {
            return new FailedMessageException("message " + message.offset() + " of topic '" + message.topic() + "'", error);
        }
    }

    private void leaveOut(FailedMessage failed) {
        Received message = failed.message();
        LOG.warn("{}: the code failed on message {} of topic '{}', which is left out", settings.session(),
                message.offset(), message.topic(), failed.error());
        try {
            leftOut.add(message.topic(), message.payload(), message.key(), Blame.reason(failed.error()));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while a message was parked", e);
        }
    }

    @Override
    public CompletableFuture<Void> isAvailable() {
        return reader == null ? assigned : reader.available(isPaused());
    }

    @Override
    public List<MqttSplit> snapshotState(long checkpoint) {
        try {
            if (reader == null) {
                return List.of();
            }
            boolean drained = reader.isDrained();
            if (drained || !reader.mayHold()) { // no message may come that passes before they are acknowledged
                suspects.committing().forEach(this::leaveOut);
            }
            leftOut.flush();
            long undecided = suspects.isEmpty() ? Long.MAX_VALUE : suspects.first().message().offset();
            long end = waitEnd.snapshot(checkpoint, reader.position(), holds(), drained);
            return List.of(reader.snapshot(checkpoint, Math.min(undecided, input.heldFrom()), end));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while messages were parked", e);
        } catch (IOException e) {
            throw new IllegalStateException("client '" + settings.clientId() + "': the state cannot be recorded", e);
        }
    }

    @Override
    public void notifyCheckpointComplete(long checkpoint) throws IOException {
        if (reader != null) {
            checkpoints.force(context.metricGroup().getAllVariables().get("<job_id>"), checkpoint);
            reader.complete(checkpoint);
            waitEnd.complete(checkpoint);
            triesSuspects = true;
            reader.wake();
        }
    }

    @Override
    public void close() {
        leftOut.close();
        if (reader != null) {
            reader.close();
        }
    }
}
