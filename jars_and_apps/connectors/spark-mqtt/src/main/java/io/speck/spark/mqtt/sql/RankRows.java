package io.speck.spark.mqtt.sql;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.api.java.UDF2;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The results of the rows of a window behind the aggregation of a query with ranks: one text each, or none. */
public final class RankRows implements UDF2<Seq<Row>, Object, List<String>> {
    private static final long serialVersionUID = 1L;

    private final NamedProgram programs = new NamedProgram();

    @Override
    public List<String> call(Seq<Row> rows, Object program) {
        List<Object[]> found = new ArrayList<>();
        for (Row row : CollectionConverters.asJava(rows)) {
            Object[] values = new Object[row.size()];
            for (int at = 0; at < values.length; at++) {
                values[at] = row.get(at);
            }
            found.add(values);
        }
        return programs.of(program).ranked(found);
    }
}
