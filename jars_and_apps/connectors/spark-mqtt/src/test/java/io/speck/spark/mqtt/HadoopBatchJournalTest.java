package io.speck.spark.mqtt;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.AbstractFileSystem;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Writes records on a local disk, and on a file system that renames as HDFS does. */
class HadoopBatchJournalTest {
    private static final String SCHEME = "likehdfs";

    @TempDir
    java.nio.file.Path folder;

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static Map<Long, String> records(HadoopBatchJournal journal) throws IOException {
        return journal.read().entrySet().stream().collect(Collectors.toMap(Map.Entry::getKey,
                each -> new String(each.getValue(), StandardCharsets.UTF_8)));
    }

    private static Configuration with(Class<? extends FileSystem> files) {
        Configuration configuration = new Configuration();
        configuration.setClass("fs." + SCHEME + ".impl", files, FileSystem.class);
        configuration.setBoolean("fs." + SCHEME + ".impl.disable.cache", true);
        return configuration;
    }

    private void assertReplaces(String scheme, Configuration configuration) throws IOException {
        HadoopBatchJournal journal = new HadoopBatchJournal(scheme + "://" + folder, configuration);
        journal.write(5, bytes("five"));
        journal.write(7, bytes("seven"));
        journal.write(5, bytes("shortened"));
        assertEquals(Map.of(5L, "shortened", 7L, "seven"), records(journal));
        journal.delete(5);
        assertEquals(Map.of(7L, "seven"), records(journal));
    }

    @Test
    void aRecordOnALocalDiskIsReplaced() throws Exception {
        assertReplaces("file", new Configuration());
    }

    @Test
    void aRecordIsReplacedWhereFilesHaveOnlyTheFormerInterface() throws Exception {
        assertReplaces(SCHEME, with(LikeHdfs.class));
    }

    /** A process may be killed at any time, and needs one of the two records then. */
    @Test
    void aRecordIsReplacedInOneStepAsOnHdfs() throws Exception {
        Configuration configuration = with(Undeletable.class);
        configuration.setClass("fs.AbstractFileSystem." + SCHEME + ".impl", Context.class, AbstractFileSystem.class);
        HadoopBatchJournal journal = new HadoopBatchJournal(SCHEME + "://" + folder, configuration);
        journal.write(5, bytes("five"));
        journal.write(5, bytes("shortened"));
        assertEquals(Map.of(5L, "shortened"), records(journal));
    }

    /** Does not rename to a name that is taken. */
    public static class LikeHdfs extends RawLocalFileSystem {
        @Override
        public URI getUri() {
            return URI.create(SCHEME + ":///");
        }

        @Override
        public boolean rename(Path from, Path to) throws IOException {
            return !exists(to) && super.rename(from, to);
        }
    }

    /** Its process is killed once it has deleted a file. */
    public static final class Undeletable extends LikeHdfs {
        @Override
        public boolean delete(Path path, boolean recursive) throws IOException {
            super.delete(path, recursive);
            throw new IOException("killed after the deletion of " + path);
        }
    }

    static final class Context extends DelegateToFileSystem {
        Context(URI uri, Configuration configuration) throws IOException, URISyntaxException {
            super(uri, new LikeHdfs(), configuration, SCHEME, false);
        }

        @Override
        public void renameInternal(Path from, Path to, boolean overwrite) throws IOException {
            Files.move(java.nio.file.Path.of(from.toUri().getPath()), java.nio.file.Path.of(to.toUri().getPath()),
                    StandardCopyOption.ATOMIC_MOVE);
        }
    }
}
