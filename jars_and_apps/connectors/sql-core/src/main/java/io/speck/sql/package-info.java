/**
 * The program of a SQL job: messages as rows, expressions over them, rows as messages. The same code runs on every
 * engine, which adds the windows, so that all give equal rows. The reference in Python is {@code speck.sql}.
 */
package io.speck.sql;
