import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.Random;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/**
 * Random partition folders, and what LogSegment.recover makes of them.
 *
 * arguments: folder, first seed, end seed, batches a segment at most. Writes FOLDER/in/logSEED-0 (the .log files and
 * `interval`) and FOLDER/out/logSEED-0 (the same behind recovery, with all small files).
 */
public final class RecoveredLogs {
    private static final Compression[] CODECS = {
        Compression.NONE, Compression.gzip().build(), Compression.snappy().build(), Compression.lz4().build(),
        Compression.zstd().build()
    };
    private static final int[] INTERVALS = {0, 1, 64, 256, 256, 1000, 4096, 4096, 16384};

    private static final class Producer {
        long id;
        short epoch;
        int sequence;
        boolean open;
        boolean transactional;
    }

    private final Random random;
    private final int most;
    private final List<Producer> producers = new ArrayList<>();
    private final boolean bumps;
    private final boolean appendTime;
    private final boolean cleaned;
    private final int interval;
    private boolean old;
    private long offset;
    private long now;
    private int leader;

    private RecoveredLogs(long seed, int most) {
        random = new Random(seed);
        this.most = most;
        offset = random.nextInt(3) == 0 ? random.nextInt(5_000_000) : 0;
        now = random.nextInt(8) == 0 ? 0 : 1_700_000_000_000L;
        leader = random.nextInt(3);
        old = random.nextInt(5) == 0;
        bumps = random.nextBoolean();
        int count = random.nextInt(5) == 0 ? 0 : 1 + random.nextInt(random.nextInt(6) == 0 ? 30 : 6);
        for (int i = 0; i < count; i++) {
            Producer made = new Producer();
            made.id = random.nextInt(3) == 0 ? random.nextLong() & Long.MAX_VALUE : i * (1 + random.nextInt(40));
            made.transactional = random.nextBoolean();
            if (random.nextInt(9) == 0)
                made.sequence = Integer.MAX_VALUE - 20;
            if (producers.stream().noneMatch(other -> other.id == made.id))
                producers.add(made);
        }
        appendTime = random.nextInt(4) == 0;
        cleaned = random.nextInt(3) == 0;
        interval = INTERVALS[random.nextInt(INTERVALS.length)];
    }

    public static void main(String[] arguments) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        for (int seed = Integer.parseInt(arguments[1]); seed < Integer.parseInt(arguments[2]); seed++) {
            String name = "log" + seed + "-0";
            Path in = Files.createDirectories(Path.of(arguments[0], "in", name));
            Path out = Files.createDirectories(Path.of(arguments[0], "out", name));
            RecoveredLogs made = new RecoveredLogs(seed, Integer.parseInt(arguments[3]));
            List<Long> bases = made.write(in, out);
            Files.writeString(in.resolve("interval"), "" + made.interval);
            recover(out, bases, made.interval, scheduler);
        }
    }

    private List<Long> write(Path... folders) throws IOException {
        int segments = 1 + random.nextInt(4);
        List<Long> bases = new ArrayList<>();
        for (int segment = 0; segment < segments; segment++) {
            bases.add(offset);
            ByteArrayOutputStream log = new ByteArrayOutputStream();
            int batches = random.nextInt(8) == 0 ? random.nextInt(3) : random.nextInt(most);
            for (int i = 0; i < batches; i++)
                step(log);
            byte[] bytes = log.toByteArray();
            if (segment == segments - 1) {
                int tail = random.nextInt(6);
                if (tail == 0 && bytes.length > 100)
                    bytes = Arrays.copyOf(bytes, bytes.length - 1 - random.nextInt(60));
                if (tail == 1)
                    bytes = Arrays.copyOf(bytes, bytes.length + random.nextInt(5000));
            }
            for (Path folder : folders)
                Files.write(folder.resolve(String.format("%020d.log", bases.get(segment))), bytes);
            if (log.size() == 0)
                offset++;  // the next segment needs another name
            if (cleaned)
                offset += random.nextInt(9);
        }
        return bases;
    }

    private static void recover(Path folder, List<Long> bases, int interval, KafkaScheduler scheduler) throws Exception {
        Properties topic = new Properties();
        topic.put("index.interval.bytes", "" + interval);
        topic.put("segment.index.bytes", "1048576");
        LogConfig config = new LogConfig(topic);
        TopicPartition partition = new TopicPartition("log", 0);
        ProducerStateManager producers = new ProducerStateManager(partition, folder.toFile(), 900_000,
            new ProducerStateManagerConfig(Integer.MAX_VALUE, false), Time.SYSTEM);
        LeaderEpochCheckpointFile file = new LeaderEpochCheckpointFile(
            LeaderEpochCheckpointFile.newFile(folder.toFile()), new LogDirFailureChannel(1));
        LeaderEpochFileCache epochs = new LeaderEpochFileCache(partition, file, scheduler);
        for (long base : bases) {
            producers.updateMapEndOffset(base);
            if (base != bases.get(0))
                producers.takeSnapshot(false);
            LogSegment segment = LogSegment.open(folder.toFile(), base, config, Time.SYSTEM, true, 0, false, "");
            segment.recover(producers, epochs);
            segment.close();
        }
        producers.takeSnapshot(false);
    }

    /** A batch onto the log, or none. */
    private void step(ByteArrayOutputStream log) throws IOException {
        now += random.nextInt(50);
        if (random.nextInt(30) == 0)
            leader += 1 + random.nextInt(3);
        if (cleaned && random.nextInt(4) == 0)
            offset += random.nextInt(50);
        int kind = random.nextInt(20);
        byte magic = old ? (byte) random.nextInt(3) : 2;
        if (old && random.nextInt(30) == 0)
            old = false;
        boolean none = producers.isEmpty() || random.nextInt(4) == 0;
        Producer producer = none ? null : producers.get(random.nextInt(producers.size()));
        if (kind < 14)
            data(log, magic, producer);
        else if (kind < 18)
            endOne(log);
        else if (kind == 18 && cleaned)
            empty(log, producer == null || producer.transactional ? null : producer);
    }

    private void data(ByteArrayOutputStream log, byte magic, Producer producer) throws IOException {
        int count = 1 + random.nextInt(6);
        MemoryRecords made = batch(magic, magic < 2 ? null : producer, count);
        long last = -1;
        for (RecordBatch one : made.batches())
            last = one.lastOffset();
        if (magic == 2 && producer != null) {
            producer.sequence = (int) ((producer.sequence + last - offset + 1) % (1L << 31));
            producer.open |= producer.transactional;
            if (random.nextInt(60) == 0) {
                producer.epoch++;
                producer.sequence = 0;
            }
        }
        put(log, made);
        offset = last + 1;
    }

    private MemoryRecords batch(byte magic, Producer producer, int count) {
        Compression codec = CODECS[random.nextInt(magic < 2 ? 4 : 5)];
        if (random.nextInt(3) == 0)
            codec = Compression.NONE;
        TimestampType type = magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE
            : appendTime ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        ByteBuffer buffer = ByteBuffer.allocate(200_000);
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(buffer, magic, codec, type, offset,
            appendTime && magic > 0 ? now : -1L, producer == null ? -1L : producer.id,
            producer == null ? (short) -1 : producer.epoch, producer == null ? -1 : producer.sequence,
            producer != null && producer.transactional, false, leader, buffer.capacity());
        long at = offset;
        for (int i = 0; i < count; i++) {
            long time = random.nextInt(40) == 0 ? -1 : Math.max(0, now + random.nextInt(2000) - 1000);
            byte[] key = random.nextBoolean() ? null : bytes(random.nextInt(20));
            byte[] value = random.nextInt(5) == 0 ? null
                : bytes(random.nextInt(random.nextInt(4) == 0 ? most * 6 : most / 2 + 10));
            builder.appendWithOffset(at, magic == 0 ? -1 : time, key, value);
            at++;
            if (cleaned && magic == 2)
                at += random.nextInt(5);
            if (magic < 2 && codec == Compression.NONE)
                break;
        }
        return builder.build();
    }

    private void endOne(ByteArrayOutputStream log) throws IOException {
        for (Producer producer : producers) {
            boolean maybe = producer.transactional && (producer.open || random.nextInt(10) == 0);
            if (maybe && random.nextInt(2) == 0) {
                end(log, producer);
                return;
            }
        }
    }

    /** A marker; one of a transaction without data may have been emptied by the cleaner. */
    private void end(ByteArrayOutputStream log, Producer producer) throws IOException {
        if (bumps)
            producer.epoch++;
        if (cleaned && !producer.open && random.nextInt(2) == 0) {
            ByteBuffer header = ByteBuffer.allocate(61);
            DefaultRecordBatch.writeEmptyHeader(header, (byte) 2, producer.id, producer.epoch, -1, offset, offset, leader,
                TimestampType.CREATE_TIME, now, true, true);
            log.write(header.array());
        } else {
            long time = now + random.nextInt(10);
            ControlRecordType type = random.nextBoolean() ? ControlRecordType.ABORT : ControlRecordType.COMMIT;
            EndTransactionMarker marker = new EndTransactionMarker(type, random.nextInt(5));
            put(log, MemoryRecords.withEndTransactionMarker(offset, time, leader, producer.id, producer.epoch, marker));
            producer.open = false;
        }
        if (bumps)
            producer.sequence = 0;
        offset++;
    }

    /** A data batch that the cleaner emptied. */
    private void empty(ByteArrayOutputStream log, Producer producer) throws IOException {
        long last = offset + random.nextInt(4);
        ByteBuffer header = ByteBuffer.allocate(61);
        DefaultRecordBatch.writeEmptyHeader(header, (byte) 2, producer == null ? -1L : producer.id,
            producer == null ? (short) -1 : producer.epoch, producer == null ? -1 : producer.sequence, offset, last,
            leader, TimestampType.CREATE_TIME, now + random.nextInt(3000) - 1000, false, false);
        if (producer != null)
            producer.sequence += (int) (last - offset) + 1;
        log.write(header.array());
        offset = last + 1;
    }

    private static void put(ByteArrayOutputStream log, MemoryRecords records) throws IOException {
        ByteBuffer bytes = records.buffer().duplicate();
        byte[] copy = new byte[bytes.remaining()];
        bytes.get(copy);
        log.write(copy);
    }

    private byte[] bytes(int size) {
        byte[] made = new byte[size];
        random.nextBytes(made);
        return made;
    }
}
