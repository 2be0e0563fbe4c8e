package io.speck.spark.mqtt;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.StringType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Determines if a query uses the contents of its messages as text. Spark keeps any bytes in a STRING as they are until
 * an expression reads it, so a query that only passes the column {@code value} on, or casts it to BINARY, works on all
 * contents.
 *
 * <p>The rule errs on the side of text: contents are unread only if each use of them in the analysed plan is a plain
 * column of a projection, a cast to BINARY or a test for NULL, and the sink writes them as contents of messages. Spark
 * itself relies on {@link LogicalPlan#references} for the columns that an operator needs, as it prunes all others.
 */
final class TextUse {
    private final MicroBatchStream stream;
    /** The columns of strings that hold contents. */
    private final Set<ExprId> contents = new HashSet<>();
    /** The columns of bytes that hold contents; reading these is no use of text. */
    private final Set<ExprId> bytes = new HashSet<>();

    private TextUse(MicroBatchStream stream) {
        this.stream = stream;
    }

    /** True if the running query with this id uses the stream's contents as text, or is not known. */
    static boolean isText(SparkSession spark, String queryId, MicroBatchStream stream) {
        StreamExecution query = queryId == null ? null
                : spark.sharedState().activeStreamingQueries().get(UUID.fromString(queryId));
        return query == null || !(query.sink() instanceof MqttTable) || new TextUse(stream).isRead(query.logicalPlan());
    }

    private boolean isRead(LogicalPlan query) {
        return isReadIn(query) || list(query.children()).stream().flatMap(each -> list(each.output()).stream())
                .anyMatch(each -> contents.contains(each.exprId()) && !each.name().equalsIgnoreCase("value"));
    }

    /** True if a plan reads contents; adds the columns that hold them above it. */
    private boolean isReadIn(LogicalPlan plan) {
        if (plan instanceof StreamingDataSourceV2ScanRelation scan && scan.stream() == stream) {
            contents.add(scan.output().apply(RowColumns.VALUE).exprId());
            return false;
        }
        boolean read = plan instanceof CTERelationRef || !list(plan.subqueriesAll()).isEmpty(); // outside of the tree
        for (LogicalPlan child : list(plan.children())) {
            read |= isReadIn(child);
        }
        if (plan instanceof Union) {
            unite(plan);
            return read;
        }
        return read | (plan instanceof Project ? isReadInProjection(plan) : isReadInNode(plan));
    }

    private boolean isReadInProjection(LogicalPlan projection) {
        boolean read = false;
        for (Expression column : list(projection.expressions())) {
            if (column instanceof Alias alias && isContent(alias.child())) {
                contents.add(alias.exprId());
            } else if (column instanceof Alias alias && isBytes(alias.child())) {
                bytes.add(alias.exprId());
            } else {
                read |= !isContent(column) && reads(column);
            }
        }
        return read;
    }

    /** True if a node reads contents in an expression, or refers to them in another way. */
    private boolean isReadInNode(LogicalPlan plan) {
        List<Expression> expressions = list(plan.expressions());
        return expressions.stream().anyMatch(this::reads)
                || list(plan.references().toSeq()).stream().filter(each -> contents.contains(each.exprId()))
                        .anyMatch(each -> expressions.stream().noneMatch(other -> other.references().contains(each)));
    }

    /** The columns of a union have the ids of its first child's. */
    private void unite(LogicalPlan union) {
        List<Attribute> output = list(union.output());
        for (LogicalPlan child : list(union.children())) {
            List<Attribute> columns = list(child.output());
            for (int i = 0; i < columns.size(); i++) {
                for (Set<ExprId> each : List.of(contents, bytes)) {
                    if (each.contains(columns.get(i).exprId())) {
                        each.add(output.get(i).exprId());
                    }
                }
            }
        }
    }

    /** True for a string that holds a content. */
    private boolean isContent(Expression expression) {
        if (expression instanceof Cast cast && cast.dataType() instanceof StringType) {
            return isBytes(cast.child()) || cast.child().dataType() instanceof StringType && isContent(cast.child());
        }
        return expression instanceof AttributeReference column && contents.contains(column.exprId());
    }

    /** True for a binary that holds a content. */
    private boolean isBytes(Expression expression) {
        if (expression instanceof Cast cast && cast.dataType() instanceof BinaryType) {
            return isContent(cast.child()) || isBytes(cast.child());
        }
        return expression instanceof AttributeReference column && bytes.contains(column.exprId());
    }

    private boolean reads(Expression expression) {
        if (isBytes(expression)) {
            return false;
        }
        List<Expression> children = list(expression.children());
        boolean isTest = expression instanceof IsNull || expression instanceof IsNotNull;
        if (isTest && isContent(children.get(0))) {
            return false;
        }
        return isContent(expression) || children.stream().anyMatch(this::reads);
    }

    private static <T> List<T> list(scala.collection.Iterable<? extends T> elements) {
        return List.copyOf(CollectionConverters.asJavaCollection(elements));
    }
}
