package io.speck.sql.flink;

import io.speck.sql.Merge;
import io.speck.sql.SqlProgram;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.types.Row;

/** The types of the rows of a query; Flink refuses a state whose types are others. */
final class RowTypes {
    private RowTypes() {}

    /** The types of rows before the windows; those of a part of a query have totals in the place of values. */
    static TypeInformation<Row> before(SqlProgram.Windows windows, boolean part) {
        List<TypeInformation<?>> found = new ArrayList<>(List.of(Types.LONG));
        windows.keys().forEach(each -> found.add(of(each)));
        windows.merges().forEach(each -> found.add(of(part ? each.total() : each.type())));
        return row(found);
    }

    /** The types of rows before a join: time, number of the table, key, and the row as a text. */
    static TypeInformation<Row> tagged() {
        return row(List.of(Types.LONG, Types.LONG, Types.STRING, Types.STRING));
    }

    /** Returns the number of the table of a row before a join. */
    static int side(Row row) {
        return ((Long) row.getField(1)).intValue();
    }

    static String key(Row row) {
        return (String) row.getField(2);
    }

    static String joined(Row row) {
        return (String) row.getField(3);
    }

    static TypeInformation<Row> keys(SqlProgram.Windows windows) {
        List<TypeInformation<?>> found = new ArrayList<>();
        windows.keys().forEach(each -> found.add(of(each)));
        return row(found.isEmpty() ? List.of(Types.LONG) : found);
    }

    static TypeInformation<Row> totals(SqlProgram.Windows windows) {
        List<TypeInformation<?>> found = new ArrayList<>();
        for (Merge each : windows.merges()) {
            found.add(of(each.total()));
        }
        return row(found);
    }

    static TypeInformation<Row> behind(SqlProgram.Windows windows) {
        List<TypeInformation<?>> found = new ArrayList<>(List.of(Types.LONG, Types.LONG));
        windows.keys().forEach(each -> found.add(of(each)));
        windows.merges().forEach(each -> found.add(of(each.total())));
        return row(found);
    }

    private static TypeInformation<Row> row(List<TypeInformation<?>> types) {
        return Types.ROW(types.toArray(new TypeInformation<?>[0]));
    }

    private static TypeInformation<?> of(String type) {
        switch (type) {
            case "boolean":
                return Types.BOOLEAN;
            case "double":
                return Types.DOUBLE;
            case "string":
                return Types.STRING;
            default:
                return Types.LONG; // whole numbers, and timestamps in milliseconds
        }
    }
}
