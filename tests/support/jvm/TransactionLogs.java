import java.io.File;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ScheduledFuture;
import java.util.stream.Collectors;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;

/**
 * Partition folders of random transactions, written by a broker's own log class, and what that class says of them.
 *
 * arguments: folder, first seed, how many. Writes FOLDER/SEED/orders-0/ and FOLDER/SEED/expected.json.
 */
final class TransactionLogs {
    private static final long NOW = 1_700_000_000_000L;

    /** Runs nothing: a log schedules only what removes or flushes files later. */
    private static final class Idle implements Scheduler {
        public void startup() { }
        public void shutdown() { }
        public ScheduledFuture<?> schedule(String name, Runnable task, long delay, long period) {
            return (ScheduledFuture<?>) Proxy.newProxyInstance(Idle.class.getClassLoader(),
                new Class<?>[] {ScheduledFuture.class}, (future, method, given) ->
                    method.getReturnType() == boolean.class ? (Object) true : null);
        }
        public void resizeThreadPool(int size) { }
    }

    private static final class Producer {
        final long id;
        short epoch;
        int sequence;
        boolean open;

        Producer(long id) {
            this.id = id;
        }
    }

    private final Random random;
    private final UnifiedLog log;
    private long now = NOW;

    private TransactionLogs(Path folder, long seed) throws Exception {
        random = new Random(seed);
        Map<String, Object> settings = new HashMap<>();
        settings.put(LogConfig.INTERNAL_SEGMENT_BYTES_CONFIG, 600 + random.nextInt(4000));
        settings.put("index.interval.bytes", 256);
        settings.put("retention.ms", -1L);
        File place = folder.resolve("orders-0").toFile();
        Files.createDirectories(place.toPath());
        log = Segments.open(place, settings, 0, true, new Idle(), Time.SYSTEM, 86_400_000);
    }

    private SimpleRecord[] records() {
        SimpleRecord[] made = new SimpleRecord[1 + random.nextInt(3)];
        for (int i = 0; i < made.length; i++) {
            now += random.nextInt(2000);
            made[i] = new SimpleRecord(now, ("k" + random.nextInt(9)).getBytes(), new byte[random.nextInt(40)]);
        }
        return made;
    }

    private Compression codec() {
        CompressionType[] types = CompressionType.values();
        return Compression.of(types[random.nextInt(types.length)]).build();
    }

    private void write(int steps, boolean epochsGrow) throws Exception {
        List<Producer> producers = new ArrayList<>();
        int count = 1 + random.nextInt(5);
        for (int i = 0; i < count; i++)
            producers.add(new Producer(100 + i));
        Producer plain = new Producer(7);
        int coordinatorEpoch = random.nextInt(3);
        for (int step = 0; step < steps; step++) {
            Producer producer = producers.get(random.nextInt(count));
            int kind = random.nextInt(20);
            if (kind < 9) {
                SimpleRecord[] records = records();
                log.appendAsLeader(MemoryRecords.withTransactionalRecords(codec(), producer.id, producer.epoch,
                    producer.sequence, records), 3, AppendOrigin.CLIENT);
                producer.sequence += records.length;
                producer.open = true;
            } else if (kind < 14) {
                if (!producer.open && random.nextInt(4) > 0)
                    continue;
                now += random.nextInt(5000);
                if (epochsGrow)
                    producer.epoch++;
                ControlRecordType type = random.nextBoolean() ? ControlRecordType.COMMIT : ControlRecordType.ABORT;
                log.appendAsLeader(MemoryRecords.withEndTransactionMarker(now, producer.id, producer.epoch,
                    new EndTransactionMarker(type, coordinatorEpoch)), 3, AppendOrigin.COORDINATOR,
                    RequestLocal.noCaching(), VerificationGuard.SENTINEL, (short) (epochsGrow ? 2 : 0));
                if (epochsGrow)
                    producer.sequence = 0;
                producer.open = false;
            } else if (kind < 16) {
                log.appendAsLeader(MemoryRecords.withRecords(codec(), records()), 3);
            } else if (kind < 18) {
                SimpleRecord[] records = records();
                log.appendAsLeader(MemoryRecords.withIdempotentRecords(codec(), plain.id, plain.epoch, plain.sequence,
                    records), 3);
                plain.sequence += records.length;
            } else if (kind == 18) {
                log.roll();
            } else {
                coordinatorEpoch++;
            }
        }
    }

    /** As retention does it: the first segments go. */
    private void deleteFront() throws Exception {
        log.updateHighWatermark(log.logEndOffset());
        long start = (long) (log.logEndOffset() * random.nextDouble());
        log.maybeIncrementLogStartOffset(start, LogStartOffsetIncrementReason.ClientRecordDeletion);
        log.deleteOldSegments();
    }

    private String expected() throws Exception {
        log.updateHighWatermark(log.logEndOffset());
        long end = log.logEndOffset();
        var aborted = log.collectAbortedTransactions(log.logStartOffset(), end);
        List<Long> seen = new ArrayList<>();
        for (long at = log.logStartOffset(); at < log.lastStableOffset();) {
            long next = at;
            for (RecordBatch batch : log.read(at, 1 << 20, FetchIsolation.TXN_COMMITTED, true).records.batches()) {
                next = batch.nextOffset();
                boolean dropped = batch.isControlBatch() || batch.isTransactional() && aborted.stream().anyMatch(txn ->
                    txn.producerId() == batch.producerId() && txn.firstOffset() <= batch.baseOffset()
                        && batch.baseOffset() <= txn.lastOffset());
                for (Record record : batch)
                    if (!dropped && record.offset() >= log.logStartOffset())
                        seen.add(record.offset());
            }
            if (next == at)
                break;
            at = next;
        }
        String open = log.activeProducers().stream().filter(state -> state.currentTxnStartOffset() >= 0)
            .map(state -> "[" + state.producerId() + "," + state.currentTxnStartOffset() + "," + state.producerEpoch() + ","
                + state.coordinatorEpoch() + "," + state.lastTimestamp() + "]").collect(Collectors.joining(","));
        return "{\"start_offset\":" + log.logStartOffset() + ",\"next_offset\":" + end
            + ",\"last_stable_offset\":" + log.lastStableOffset()
            + ",\"open\":[" + open + "]"
            + ",\"aborted\":[" + aborted.stream().map(txn -> "[" + txn.producerId() + "," + txn.firstOffset() + ","
                + txn.lastOffset() + "," + txn.lastStableOffset() + "]").collect(Collectors.joining(",")) + "]"
            + ",\"read_committed\":" + seen + "}\n";
    }

    static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        long first = Long.parseLong(arguments[1]);
        for (long seed = first; seed < first + Long.parseLong(arguments[2]); seed++) {
            Path place = folder.resolve(String.valueOf(seed));
            TransactionLogs made = new TransactionLogs(place, seed);
            made.write(5 + made.random.nextInt(120), seed % 2 == 1);
            if (seed % 4 == 3)
                made.deleteFront();
            Files.writeString(place.resolve("expected.json"), made.expected());
            made.log.close();
        }
    }
}
