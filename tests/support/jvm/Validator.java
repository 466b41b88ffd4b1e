import java.io.File;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.requests.ProduceResponse;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/** What LogValidator, the broker's check of a produce request, makes of records. */
final class Validator {
    private Validator() { }

    /**
     * One request by thirteen arguments: records as hex, first offset, magic, source codec ("-": as UnifiedLog finds
     * it), target codec ("-": the source's), CreateTime or LogAppendTime, before and after max ms, compacted (true,
     * false), leader epoch, origin, now, max.decompressed.message.bytes (which Kafka 4.3 does not have).
     *
     * Three lines each: "taken" now, max timestamp, size changed, records converted, next offset; the
     * records as hex; nothing. Or "refused" and the exception; its message; record errors as "index message", by tabs.
     */
    static void main(String[] words) {
        for (int i = 0; i < words.length; i += 13)
            judge(Arrays.copyOfRange(words, i, i + 13));
    }

    /** The constructor with all parameters that this Kafka has. */
    private static final Constructor<?> NEWEST = Arrays.stream(LogValidator.class.getConstructors())
        .max(Comparator.comparing(Constructor::getParameterCount)).orElseThrow();

    private static void judge(String[] words) {
        byte[] bytes = Reading.bytes(words[0]);
        try {
            MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes));
            PrimitiveRef.LongRef offset = PrimitiveRef.ofLong(Long.parseLong(words[1]));
            CompressionType source = words[3].equals("-") ? sourceOf(records) : CompressionType.forName(words[3]);
            CompressionType target = words[4].equals("-") ? source : CompressionType.forName(words[4]);
            Object[] values = {
                records, new TopicPartition("t", 0), Segments.clock(new AtomicLong(Long.parseLong(words[11]))), source,
                Compression.of(target).build(), Boolean.parseBoolean(words[8]), Byte.parseByte(words[2]),
                TimestampType.forName(words[5]), Long.parseLong(words[6]), Long.parseLong(words[7]),
                Integer.parseInt(words[9]), AppendOrigin.valueOf(words[10]), Integer.parseInt(words[12])
            };
            LogValidator.ValidationResult result = ((LogValidator) NEWEST.newInstance(
                Arrays.copyOf(values, NEWEST.getParameterCount()))
            ).validateMessagesAndAssignOffsets(offset, NOT_COUNTED, BufferSupplier.create());
            String line = "taken " + result.logAppendTimeMs() + ' ' + result.maxTimestampMs() + ' '
                + result.messageSizeMaybeChanged() + ' ' + result.recordValidationStats().numRecordsConverted() + ' ' + offset.value;
            byte[] out = Utils.toArray(result.validatedRecords().buffer());
            System.out.println(line + '\n' + HexFormat.of().formatHex(out) + '\n');
        } catch (RecordValidationException refusal) {
            StringBuilder errors = new StringBuilder();
            for (ProduceResponse.RecordError error : refusal.recordErrors())
                errors.append(error.batchIndex).append(' ').append(error.message).append('\t');
            say(refusal.invalidException(), "RecordValidationException:", errors.toString());
        } catch (Exception | Error refusal) {
            say(refusal, "", "");
        }
    }

    private static void say(Throwable refusal, String prefix, String errors) {
        System.out.println("refused " + prefix + refusal.getClass().getSimpleName());
        System.out.println(String.valueOf(refusal.getMessage()).replace('\n', ' '));
        System.out.println(errors.replace('\n', ' '));
    }

    /** UnifiedLog.analyzeAndValidateRecords: the last codec that is one. */
    private static CompressionType sourceOf(MemoryRecords records) {
        CompressionType found = CompressionType.NONE;
        for (MutableRecordBatch batch : records.batches())
            if (batch.compressionType() != CompressionType.NONE)
                found = batch.compressionType();
        return found;
    }

    /**
     * UnifiedLog.analyzeAndValidateRecords, as for a follower: offsets must increase. Arguments: an empty folder, the
     * topic's max.message.bytes; then by threes records as hex, origin, leader epoch. A line each: "taken" valid bytes,
     * max timestamp, last offset; or "refused" and the exception.
     */
    static void analyze(String[] words) throws Exception {
        Map<String, String> settings = Map.of("max.message.bytes", words[1]);
        Method analyze = UnifiedLog.class.getDeclaredMethod("analyzeAndValidateRecords", MemoryRecords.class,
            AppendOrigin.class, boolean.class, boolean.class, int.class);
        analyze.setAccessible(true);
        Segments.use(new File(words[0]), settings, 0, true, Time.SYSTEM, Integer.MAX_VALUE, log -> {
            for (int i = 2; i < words.length; i += 3)
                analyze(log, analyze, Reading.bytes(words[i]), words[i + 1], Integer.parseInt(words[i + 2]));
        });
    }

    private static void analyze(UnifiedLog log, Method analyze, byte[] bytes, String origin, int epoch)
        throws Exception {
        try {
            LogAppendInfo found = (LogAppendInfo) analyze.invoke(log, MemoryRecords.readableRecords(
                ByteBuffer.wrap(bytes)), AppendOrigin.valueOf(origin), false, true, epoch);
            System.out.println("taken " + found.validBytes() + ' ' + found.maxTimestamp() + ' ' + found.lastOffset());
        } catch (InvocationTargetException refusal) {
            System.out.println("refused " + refusal.getCause().getClass().getSimpleName());
        }
    }

    static final LogValidator.MetricsRecorder NOT_COUNTED = (LogValidator.MetricsRecorder) Proxy.newProxyInstance(
        Validator.class.getClassLoader(), new Class<?>[] {LogValidator.MetricsRecorder.class}, (self, method, given) -> null);
}
