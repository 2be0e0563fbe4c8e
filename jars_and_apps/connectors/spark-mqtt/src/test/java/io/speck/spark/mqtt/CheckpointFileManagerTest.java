package io.speck.spark.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.speck.mqtt.Topic;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Files of checkpoints are written without further processes, with the permissions that Hadoop gives them. */
@Timeout(180)
class CheckpointFileManagerTest extends SessionCase {
    /** An action that may fail in any way. */
    private interface Action {
        void run() throws Exception;
    }

    /** Returns the command lines of the processes that are started meanwhile for files of the test. */
    private List<String> started(Action action) throws Exception {
        Path file = folder.resolve("recording.jfr");
        try (Recording recording = new Recording()) {
            recording.enable("jdk.ProcessStart");
            recording.start();
            action.run();
            recording.stop();
            recording.dump(file);
        }
        List<String> commands = new ArrayList<>();
        for (RecordedEvent event : RecordingFile.readAllEvents(file)) {
            String command = event.getString("command");
            if (command.contains(folder.toString())) {
                commands.add(command);
            }
        }
        return commands;
    }

    private static void write(FileSystem files, Path file) throws Exception {
        try (FSDataOutputStream out = files.create(hadoop(file))) {
            out.writeUTF("content");
        }
    }

    private static org.apache.hadoop.fs.Path hadoop(Path path) {
        return new org.apache.hadoop.fs.Path(path.toUri());
    }

    private static FileSystem local(Configuration configuration) throws Exception {
        return FileSystem.newInstance(URI.create("file:///"), configuration);
    }

    @Test
    void noProcessIsStartedForTheBatchesOfAQuery() throws Exception {
        Topic.session(broker.url(), "query", "in");
        StreamingQuery query = spark.readStream().format("mqtt").option("brokerUrl", broker.url()).option("topic", "in")
                .option("clientId", "query").option("idleWait", "50ms").load().groupBy("value").count()
                .selectExpr("CAST(count AS STRING) AS value").writeStream().outputMode("update").format("mqtt")
                .option("brokerUrl", broker.url()).option("topic", "out")
                .option("checkpointLocation", folder.resolve("checkpoint").toString()).start();
        try {
            List<String> commands = started(() -> {
                for (int count = 0; count < 3; count++) {
                    Topic.publish(broker.url(), "in", List.of("a"));
                    query.processAllAvailable();
                }
            });
            assertEquals(List.of(), commands);
        } finally {
            query.stop();
        }
        assertTrue(Files.exists(folder.resolve("checkpoint/commits/0")));
        assertTrue(Files.exists(folder.resolve("checkpoint/state/0/0")));
    }

    @Test
    void sparksOwnManagerStartsProcessesAndThisOneNone() throws Exception {
        var theirs = new FileSystemBasedCheckpointFileManager(hadoop(folder), new Configuration());
        List<String> commands = started(() -> theirs.createTempFile(hadoop(folder.resolve("file"))).close());
        assertFalse(commands.isEmpty(), "the class under test has no use any more");
        var ours = new CheckpointFileManager(hadoop(folder), new Configuration());
        assertEquals(List.of(), started(() -> ours.createTempFile(hadoop(folder.resolve("other"))).close()));
        assertTrue(ours.isLocal());
    }

    @ParameterizedTest
    @ValueSource(strings = {"022", "077", "002"})
    void filesAndFoldersHaveThePermissionsThatHadoopGivesThem(String mask) throws Exception {
        Configuration configuration = new Configuration();
        configuration.set("fs.permissions.umask-mode", mask);
        List<List<Set<PosixFilePermission>>> permissions = new ArrayList<>();
        for (Configuration each : List.of(configuration, ForklessLocalFileSystem.in(configuration))) {
            Path written = folder.resolve(mask + permissions.size());
            try (FileSystem files = local(each)) {
                files.mkdirs(hadoop(written));
                write(files, written.resolve("file"));
            }
            permissions.add(List.of(
                    Files.getPosixFilePermissions(written.resolve("file")),
                    Files.getPosixFilePermissions(written.resolve(".file.crc")), Files.getPosixFilePermissions(written)));
        }
        assertEquals(permissions.get(0), permissions.get(1));
    }

    @Test
    void permissionsOfAFileAreChanged() throws Exception {
        Path file = folder.resolve("file");
        try (FileSystem files = local(ForklessLocalFileSystem.in(new Configuration()))) {
            write(files, file);
            files.setPermission(hadoop(file), new FsPermission("0640"));
            assertEquals("rw-r-----", PosixFilePermissions.toString(Files.getPosixFilePermissions(file)));
            Path shared = folder.resolve("shared");
            files.mkdirs(hadoop(shared));
            files.setPermission(hadoop(shared), new FsPermission("1777"));
            assertEquals(01777, (int) Files.getAttribute(shared, "unix:mode") & 07777);
        }
    }
}
