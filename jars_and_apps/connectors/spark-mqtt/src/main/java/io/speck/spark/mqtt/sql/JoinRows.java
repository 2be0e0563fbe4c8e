package io.speck.spark.mqtt.sql;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.api.java.UDF4;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The results of the rows of two tables that have one key, in a window: one text each. */
public final class JoinRows implements UDF4<Long, Long, Seq<Row>, Object, List<String>> {
    private static final long serialVersionUID = 1L;

    private final NamedProgram programs = new NamedProgram();

    @Override
    public List<String> call(Long start, Long end, Seq<Row> rows, Object program) {
        List<String> left = new ArrayList<>();
        List<String> right = new ArrayList<>();
        for (Row row : CollectionConverters.asJava(rows)) {
            (row.getLong(0) == 0 ? left : right).add(row.getString(1));
        }
        return programs.of(program).join().results(start, end, left, right);
    }
}
