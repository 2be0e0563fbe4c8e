package io.speck.flink.jobs;

import io.speck.flink.mqtt.MqttJob;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;

/**
 * Counts messages by key, and writes {@code KEY,COUNT} for each. The key is the comma-separated field whose number,
 * from 1, is the argument {@code field} (empty where a message has fewer), or the whole message without it.
 */
public final class CountByKey {
    private static final int MOST_FIELDS = 1_000_000;

    private CountByKey() {}

    public static void main(String[] arguments) throws Exception {
        MqttJob job = MqttJob.of(arguments);
        int field = (int) job.number("field", 0, 0, MOST_FIELDS);
        job.write(count(job.texts(), field, job.parallelism()));
        job.execute();
    }

    static DataStream<String> count(DataStream<String> texts, int field, int parallelism) {
        return texts.keyBy(text -> key(text, field)).map(new Count(field)).name("aggregation: count").uid("count")
                .setParallelism(parallelism);
    }

    /** @param field its number, from 1; 0 for the whole text */
    static String key(String text, int field) {
        if (field == 0) {
            return text;
        }
        String[] fields = text.split(",", field + 1);
        return field <= fields.length ? fields[field - 1] : "";
    }

    private static final class Count extends RichMapFunction<String, String> {
        private static final long serialVersionUID = 1L;

        private final int field;
        private transient ValueState<Long> count;

        Count(int field) {
            this.field = field;
        }

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
        }

        @Override
        public String map(String text) throws Exception {
            long counted = count.value() == null ? 1 : count.value() + 1;
            count.update(counted);
            return key(text, field) + "," + counted;
        }
    }
}
