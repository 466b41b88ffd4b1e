import java.io.File;
import java.io.IOException;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Predicate;

import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** What a broker does with a partition's folder. Every verb works in the folder that it is given: hand it a copy. */
final class Segments {
    private static final int TRANSACTION_TIMEOUT = 15 * 60 * 1000;
    private static final int PRODUCER_EXPIRY = 24 * 60 * 60 * 1000;

    private Segments() { }

    private static Map<String, String> settings(String interval) {
        return Map.of("index.interval.bytes", interval, "retention.ms", "-1");
    }

    /** A clock that says what it is told; producers expire by it. */
    static Time clock(AtomicLong now) {
        return (Time) Proxy.newProxyInstance(Segments.class.getClassLoader(), new Class<?>[] {Time.class},
            (clock, method, given) ->
                method.getName().equals("milliseconds") ? now.get() : method.invoke(Time.SYSTEM, given));
    }

    interface Work {
        void on(UnifiedLog log) throws Exception;
    }

    /**
     * Works on the log in a folder, and closes it as a clean shutdown does. start: its first offset, where there is none;
     * isClean: what it was before; expiry: of producers that write nothing.
     */
    static void use(File folder, Map<String, ?> settings, long start, boolean isClean, Time time, int expiry, Work work)
            throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        try {
            UnifiedLog log = UnifiedLog.create(folder, new LogConfig(settings), start, 0L, scheduler, new BrokerTopicStats(),
                time, TRANSACTION_TIMEOUT, new ProducerStateManagerConfig(expiry, false), 600_000,
                new LogDirFailureChannel(1), isClean, Optional.empty());
            work.on(log);
            log.activeSegment().onBecomeInactiveSegment();  // as LogManager does since 4.4, and close before
            log.close();
        } finally {
            scheduler.shutdown();
        }
    }

    private static String bases(UnifiedLog log) {
        StringBuilder segments = new StringBuilder();
        log.logSegments().forEach(segment -> segments.append(' ').append(segment.baseOffset()));
        return segments.toString();
    }

    private static Iterable<MutableRecordBatch> batches(String file) throws IOException {
        return MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(Path.of(file)))).batches();
    }

    private static MemoryRecords alone(MutableRecordBatch batch) {
        ByteBuffer one = ByteBuffer.allocate(batch.sizeInBytes());
        batch.writeTo(one);
        one.flip();
        return MemoryRecords.readableRecords(one);
    }

    private static ProducerStateManager producers(File folder) throws IOException {
        return new ProducerStateManager(partition(folder), folder, TRANSACTION_TIMEOUT,
            new ProducerStateManagerConfig(PRODUCER_EXPIRY, false), Time.SYSTEM);
    }

    private static TopicPartition partition(File folder) throws IOException {
        return UnifiedLog.parseTopicPartitionName(folder);
    }

    private static LeaderEpochFileCache epochs(File folder, Scheduler scheduler) throws IOException {
        LeaderEpochCheckpointFile file = new LeaderEpochCheckpointFile(
            LeaderEpochCheckpointFile.newFile(folder), new LogDirFailureChannel(1));
        return new LeaderEpochFileCache(partition(folder), file, scheduler);
    }

    private static File[] logs(File folder) {
        File[] found = folder.listFiles((dir, name) -> name.endsWith(".log"));
        Arrays.sort(found);
        return found;
    }

    private static void delete(File folder, String... suffixes) throws IOException {
        for (File file : folder.listFiles())
            for (String suffix : suffixes)
                if (file.getName().endsWith(suffix))
                    Files.delete(file.toPath());
    }

    /**
     * FOLDER INTERVAL: LogSegment.recover for each segment in order, with nothing known before: indexes, producer
     * snapshots (at the base offset of each segment but the first, and at the end) and the leader epoch file are written
     * anew. The last segment's indexes end as when it is closed, the others' as when they are rolled.
     */
    static void recover(String[] arguments) throws Exception {
        File folder = new File(arguments[0]);
        LogConfig config = new LogConfig(settings(arguments[1]));
        delete(folder, ".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint");
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        try {
            ProducerStateManager producers = producers(folder);
            LeaderEpochFileCache epochs = epochs(folder, scheduler);
            File[] logs = logs(folder);
            for (File log : logs) {
                long baseOffset = UnifiedLog.offsetFromFile(log);
                producers.updateMapEndOffset(baseOffset);
                if (log != logs[0])
                    producers.takeSnapshot();
                LogSegment segment = LogSegment.open(folder, baseOffset, config, Time.SYSTEM, 0, false);
                segment.recover(producers, epochs);
                segment.close();
            }
            producers.takeSnapshot();
        } finally {
            scheduler.shutdown();
        }
    }

    /**
     * FOLDER INTERVAL [START]: the log as a broker opens it after a crash (LogLoader), closed again; START: by
     * log-start-offset-checkpoint. Prints its first and next offset, and the base offsets of its segments.
     */
    static void load(String[] arguments) throws Exception {
        long start = arguments.length > 2 ? Long.parseLong(arguments[2]) : 0;
        use(new File(arguments[0]), settings(arguments[1]), start, false, Time.SYSTEM, PRODUCER_EXPIRY, log ->
            System.out.println(log.logStartOffset() + " " + log.logEndOffset() + bases(log)));
    }

    /**
     * FOLDER START: the log as a broker opens it after a crash, of which what is in front of offset START is deleted, as
     * by retention. Prints as JSON what it says of transactions, which `LogState` in transaction_logs.py describes.
     */
    static void transactions(String[] arguments) throws Exception {
        Time time = clock(new AtomicLong(1_700_000_000_000L));  // that of the records: no producer expires
        use(new File(arguments[0]), settings("256"), 0, false, time, PRODUCER_EXPIRY, log -> {
            log.updateHighWatermark(log.logEndOffset());
            log.maybeIncrementLogStartOffset(
                Long.parseLong(arguments[1]), LogStartOffsetIncrementReason.ClientRecordDeletion);
            log.deleteOldSegments();
            var aborted = log.collectAbortedTransactions(log.logStartOffset(), log.logEndOffset());
            Predicate<RecordBatch> isAborted = batch -> batch.isTransactional() && aborted.stream().anyMatch(txn ->
                txn.producerId() == batch.producerId() && txn.firstOffset() <= batch.baseOffset()
                    && batch.baseOffset() <= txn.lastOffset());
            System.out.println(new ObjectMapper().writeValueAsString(Map.of(
                "start_offset", log.logStartOffset(), "next_offset", log.logEndOffset(),
                "last_stable_offset", log.lastStableOffset(), "read_committed", committed(log, isAborted),
                "open", log.activeProducers().stream().filter(state -> state.currentTxnStartOffset() >= 0)
                    .map(state -> List.of(state.producerId(), state.currentTxnStartOffset(), state.producerEpoch(),
                        state.coordinatorEpoch(), state.lastTimestamp())).toList(),
                "aborted", aborted.stream().map(txn ->
                    List.of(txn.producerId(), txn.firstOffset(), txn.lastOffset())).toList())));
        });
    }

    /** The offsets that a consumer gets with read_committed. */
    private static List<Long> committed(UnifiedLog log, Predicate<RecordBatch> isAborted) throws IOException {
        List<Long> seen = new ArrayList<>();
        for (long at = log.logStartOffset(); at < log.lastStableOffset();) {
            long next = at;
            for (RecordBatch batch : log.read(at, 1 << 20, FetchIsolation.TXN_COMMITTED, true).records.batches()) {
                next = batch.nextOffset();
                for (Record record : batch)
                    if (!batch.isControlBatch() && !isAborted.test(batch) && record.offset() >= log.logStartOffset())
                        seen.add(record.offset());
            }
            if (next == at)
                break;
            at = next;
        }
        return seen;
    }

    /**
     * FILE FOLDER START SETTING=VALUE...: each batch of FILE in an append of its own, as a follower, to the log in FOLDER,
     * made at offset START where there is none, then closed. Prints its next offset and the base offsets of its segments;
     * where a batch is refused its base offset and the exception, and the log is closed there.
     */
    static void follow(String[] arguments) throws Exception {
        Map<String, String> settings = new HashMap<>();
        settings.put("retention.ms", "-1");
        for (int i = 3; i < arguments.length; i++)
            settings.put(arguments[i].split("=")[0], arguments[i].split("=")[1]);
        long start = Long.parseLong(arguments[2]);
        use(new File(arguments[1]), settings, start, true, Time.SYSTEM, Integer.MAX_VALUE, log -> {
            StringBuilder refused = new StringBuilder();
            for (MutableRecordBatch batch : batches(arguments[0])) {
                try {
                    log.appendAsFollower(alone(batch), Integer.MAX_VALUE);
                } catch (RuntimeException failure) {
                    refused.append(batch.baseOffset()).append(' ').append(failure.getClass().getSimpleName());
                    break;
                }
            }
            System.out.println(log.logEndOffset() + bases(log));
            System.out.println(refused);
        });
    }
}
