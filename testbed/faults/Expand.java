package expanding;

import io.speck.flink.mqtt.MqttJob;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.util.Collector;

/**
 * Filters and multiplies numbered messages; see {@code testbed/faults/mixed.py} for the rule, and {@code
 * spark_jobs.py} for the same on Spark. With a parallelism above 1 messages are distributed by key.
 */
public final class Expand {
    private Expand() {}

    public static void main(String[] arguments) throws Exception {
        MqttJob job = MqttJob.of(arguments);
        Rule rule = new Rule(
                job.argument("form", "a"),
                (int) job.number("twice", 3, 1, Integer.MAX_VALUE),
                job.number("dies", Long.MAX_VALUE, 0, Long.MAX_VALUE));
        DataStream<String> texts = job.parallelism() > 1 ? job.texts().keyBy(text -> text) : job.texts();
        job.write(texts.flatMap(rule).name("expand").uid("expand").setParallelism(job.parallelism()));
        job.execute();
    }

    private static final class Rule implements FlatMapFunction<String, String> {
        private static final long serialVersionUID = 1L;
        private static final int DROPPED = 5;

        private final String form;
        private final int twice;
        private final long dies;

        Rule(String form, int twice, long dies) {
            this.form = form;
            this.twice = twice;
            this.dies = dies;
        }

        @Override
        public void flatMap(String text, Collector<String> results) {
            long number = Long.parseLong(text.substring(text.lastIndexOf('-') + 1));
            if (number >= dies) {
                throw new IllegalStateException("form " + form + " ends at " + dies);
            }
            int outputs = number % DROPPED == DROPPED - 1 ? 0 : number % twice == 0 ? 2 : 1;
            for (int index = 0; index < outputs; index++) {
                results.collect(text + "." + index + "." + form);
            }
        }
    }
}
