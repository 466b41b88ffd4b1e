import java.io.File;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecords.RecordFilter;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;

/** The log cleaner: its filter with any decisions, and as a whole over a log. */
final class Compaction {
    private static final int OUTPUT = 64 << 20;

    private Compaction() { }

    /** A number from 0 to 99 that an offset and a seed always give. */
    private static int dice(long offset, long seed) {
        return (int) (((offset ^ seed) * 0x9E3779B97F4A7C15L >>> 33) % 100);
    }

    private static final class Dice extends RecordFilter {
        private final long seed;
        private final int kept;
        private final int whole;

        Dice(long now, long retention, long seed, int kept, int whole) {
            super(now, retention);
            this.seed = seed;
            this.kept = kept;
            this.whole = whole;
        }

        @Override
        protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
            int rolled = dice(batch.lastOffset(), seed);
            BatchRetention retention = rolled < 10 ? BatchRetention.DELETE
                : rolled < 40 ? BatchRetention.RETAIN_EMPTY : BatchRetention.DELETE_EMPTY;
            if (retention == BatchRetention.RETAIN_EMPTY && batch.magic() < 2)
                retention = BatchRetention.DELETE_EMPTY;
            return new BatchRetentionResult(retention, dice(batch.lastOffset(), seed + 1) < 20);
        }

        @Override
        protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
            return dice(batch.lastOffset(), seed + 2) < whole || dice(record.offset(), seed + 3) < kept;
        }
    }

    /**
     * FILE OUT NOW RETENTION SEED KEPT WHOLE MOST: MemoryRecords.filterTo with decisions by dice. KEPT: how many records
     * of a hundred stay, WHOLE: how many batches of a hundred stay whole, MOST: max.decompressed.message.bytes, which
     * Kafka 4.3 does not have. Prints the fields of FilterResult.
     */
    static void filter(String[] arguments) throws Exception {
        byte[] data = Files.readAllBytes(Path.of(arguments[0]));
        RecordFilter filter = new Dice(Long.parseLong(arguments[2]), Long.parseLong(arguments[3]),
            Long.parseLong(arguments[4]), Integer.parseInt(arguments[5]), Integer.parseInt(arguments[6]));
        Method filterTo = Arrays.stream(MemoryRecords.class.getMethods())
            .filter(method -> method.getName().equals("filterTo")).findFirst().orElseThrow();
        Object[] values = {filter, ByteBuffer.allocate(OUTPUT), BufferSupplier.NO_CACHING, Integer.valueOf(arguments[7])};
        MemoryRecords.FilterResult result;
        try {
            result = (MemoryRecords.FilterResult) filterTo.invoke(MemoryRecords.readableRecords(ByteBuffer.wrap(data)),
                Arrays.copyOf(values, filterTo.getParameterCount()));
        } catch (InvocationTargetException failure) {
            throw (Exception) failure.getCause();
        }
        Files.write(Path.of(arguments[1]), Utils.toArray(result.outputBuffer().flip()));
        System.out.println(result.messagesRead() + " " + result.bytesRead() + " " + result.messagesRetained() + " "
            + result.bytesRetained() + " " + result.maxOffset() + " " + result.maxTimestamp() + " "
            + result.shallowOffsetOfMaxTimestamp());
    }

    /**
     * FOLDER OUT RETENTION EXPIRY DIRTY MODIFIED NOW...: the Cleaner over the partition in FOLDER up to its last stable
     * offset, once for each NOW. DIRTY: the first dirty offset of the first run. MODIFIED: when the first segment was last
     * modified, each other one a second behind it. After run N its segments and transaction indexes are OUT/N/. Prints a
     * line a run: messages read, written and invalid, and the last stable offset.
     */
    static void clean(String[] arguments) throws Exception {
        File folder = new File(arguments[0]);
        AtomicLong clock = new AtomicLong();
        Map<String, String> settings =
            Map.of("retention.ms", "-1", "delete.retention.ms", arguments[2], "cleanup.policy", "compact");
        Segments.use(folder, settings, 0, true, Segments.clock(clock), Integer.parseInt(arguments[3]), log -> {
            log.roll();
            log.updateHighWatermark(log.logEndOffset());
            long modified = Long.parseLong(arguments[5]);
            for (LogSegment segment : log.logSegments()) {
                segment.log().file().setLastModified(modified);
                modified += 1000;
            }
            for (int run = 0; run + 6 < arguments.length; run++) {
                clock.set(Long.parseLong(arguments[run + 6]));
                clean(log, run == 0 ? Long.parseLong(arguments[4]) : log.logStartOffset(), clock.get());
                copy(folder, Files.createDirectories(Path.of(arguments[1], String.valueOf(run))));
            }
        });
    }

    private static void clean(UnifiedLog log, long dirty, long now) throws Exception {
        log.removeExpiredProducers(now);
        Throttler unbridled = new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "cleaner", "entries", Time.SYSTEM);
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(4 << 20), 1 << 16, 1 << 24, 0.9, unbridled, Time.SYSTEM,
            partition -> { });
        CleanerStats stats =
            cleaner.doClean(new LogToClean(log, dirty, log.lastStableOffset(), false), now).getValue();
        System.out.println(stats.messagesRead() + " " + stats.messagesWritten() + " " + stats.invalidMessagesRead()
            + " " + log.lastStableOffset());
    }

    private static void copy(File folder, Path out) throws IOException {
        for (File file : folder.listFiles())
            if (file.getName().endsWith(".log") || file.getName().endsWith(".txnindex"))
                Files.copy(file.toPath(), out.resolve(file.getName()));
    }
}
