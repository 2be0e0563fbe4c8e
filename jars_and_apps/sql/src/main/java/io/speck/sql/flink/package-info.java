/** The program that runs SQL jobs on Flink; see {@code io.speck.sql}. */
package io.speck.sql.flink;
