package io.speck.flink.mqtt;

import io.speck.mqtt.stamp.CompactForm;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.math.BigInteger;
import java.util.Collection;
import java.util.HexFormat;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.core.io.SimpleVersionedSerializer;

/**
 * The state of a writer: the stream of stamps of a subtask, and its position in it.
 *
 * @param run the lineage in the stamps
 * @param subtask the partition in the stamps
 * @param parallelism parallelism of the sink; a change of it changes the messages of each subtask
 * @param next number of the next message, if messages are counted
 */
record Lineage(String run, int subtask, int parallelism, long next) {
    /**
     * Returns the stream of stamps that a subtask continues, or else begins.
     *
     * <p>The name of a new run is the same for each restart of the job from the same point, since repeated messages
     * must carry their old stamps. It differs between jobs, after a change of parallelism, and with the number of the
     * incarnation, with which the count begins anew.
     */
    static Lineage begin(WriterInitContext context, Collection<Lineage> restored, LineageSettings settings) {
        int subtask = context.getTaskInfo().getIndexOfThisSubtask();
        int parallelism = context.getTaskInfo().getNumberOfParallelSubtasks();
        for (Lineage each : restored) {
            if (each.subtask == subtask && each.parallelism == parallelism) {
                String run = settings.run(LineageSettings.base(each.run));
                return each.run.equals(run) ? each : new Lineage(run, subtask, parallelism, 0);
            }
        }
        long checkpoint = context.getRestoredCheckpointId().orElse(0);
        JobID job = settings.origin() != null ? settings.origin() : context.getJobInfo().getJobId();
        return new Lineage(settings.run(name(job, parallelism, checkpoint, CompactForm.permitted())), subtask, parallelism,
                0);
    }

    /**
     * Names a run in 64 bits, since every message carries it: the job's 128 bits, parallelism and checkpoint, mixed.
     *
     * @param compact true for 32 bits, as eight hexadecimal digits: the runs of one job's name alone must differ, and
     *     {@link CompactForm} has 4 bytes less for such a run
     */
    static String name(JobID job, int parallelism, long checkpoint, boolean compact) {
        long mixed = mix(mix(mix(mix(job.getUpperPart()) ^ job.getLowerPart()) ^ parallelism) ^ checkpoint);
        return compact ? HexFormat.of().toHexDigits((int) (mixed >>> Integer.SIZE))
                : new BigInteger(Long.toUnsignedString(mixed)).toString(Character.MAX_RADIX);
    }

    /** The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): near numbers are mapped far apart. */
    private static long mix(long number) {
        long mixed = (number ^ number >>> 30) * 0xbf58476d1ce4e5b9L;
        mixed = (mixed ^ mixed >>> 27) * 0x94d049bb133111ebL;
        return mixed ^ mixed >>> 31;
    }

    Lineage at(long number) {
        return new Lineage(run, subtask, parallelism, number);
    }

    /** Serializes the state for checkpoints. */
    static final class Serializer implements SimpleVersionedSerializer<Lineage> {
        private static final int VERSION = 1;

        @Override
        public int getVersion() {
            return VERSION;
        }

        @Override
        public byte[] serialize(Lineage lineage) throws IOException {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            DataOutputStream out = new DataOutputStream(bytes);
            out.writeUTF(lineage.run);
            out.writeInt(lineage.subtask);
            out.writeInt(lineage.parallelism);
            out.writeLong(lineage.next);
            return bytes.toByteArray();
        }

        @Override
        public Lineage deserialize(int version, byte[] serialized) throws IOException {
            if (version != VERSION) {
                throw new IOException("state of an mqtt sink in version " + version + " (expected " + VERSION + ")");
            }
            DataInputStream in = new DataInputStream(new ByteArrayInputStream(serialized));
            return new Lineage(in.readUTF(), in.readInt(), in.readInt(), in.readLong());
        }
    }
}
