import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;

/** FILE...: what Kafka's classes say of each, a line of JSON as in tests/vectors; MANIFEST.md has the meaning. */
public final class Vectors {
    private static final int LARGE = 16 << 10;
    private static final ObjectMapper JSON = new ObjectMapper();

    private Vectors() { }

    private interface Step {
        void run(int[] done) throws Exception;
    }

    public static void main(String[] files) throws Exception {
        for (String file : files)
            System.out.println(JSON.writeValueAsString(judged(Path.of(file))));
    }

    private static Map<String, Object> judged(Path file) throws Exception {
        byte[] data = Files.readAllBytes(file);
        List<MutableRecordBatch> batches = new ArrayList<>();
        Map<String, Object> paths = new LinkedHashMap<>();
        paths.put("batches", outcome("batchesBefore", done -> {
            for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
                batches.add(batch);
                done[0]++;
            }
        }));
        int whole = batches.stream().mapToInt(RecordBatch::sizeInBytes).sum();
        Map<String, Object> valid = outcome(null, done -> {
            for (MutableRecordBatch batch : batches)
                batch.ensureValid();
        });
        paths.put("ensureValid", valid);
        valid.put("isValid", batches.stream().map(Vectors::isValid).toList());
        paths.put("iterator", each(batches, MutableRecordBatch::iterator, record -> { }));
        Function<MutableRecordBatch, Iterator<Record>> streaming =
            batch -> batch.streamingIterator(BufferSupplier.NO_CACHING);
        paths.put("streamingIterator", each(batches, streaming, record -> { }));
        paths.put("skipKeyValueIterator",
            each(batches, batch -> batch.skipKeyValueIterator(BufferSupplier.NO_CACHING), record -> { }));
        paths.put("recordFields", each(batches, MutableRecordBatch::iterator, record -> {
            record.key();
            record.value();
            record.headers();
        }));
        paths.put("recordEnsureValid", each(batches, streaming, Record::ensureValid));
        List<MutableRecordBatch> control = batches.stream().filter(RecordBatch::isControlBatch).toList();
        if (!control.isEmpty())
            paths.put("controlRecord", each(control, MutableRecordBatch::iterator, Vectors::control));
        paths.put("fileRecords", outcome("recordsBefore", done -> {
            try (FileRecords records = FileRecords.open(file.toFile(), false)) {
                for (RecordBatch batch : records.batches()) {
                    batch.ensureValid();
                    count(batch.streamingIterator(BufferSupplier.NO_CACHING), record -> { }, done);
                }
            }
        }));
        paths.put("logValidator", outcome(null, done -> validate(Arrays.copyOf(data, whole))));
        Map<String, Object> found = new LinkedHashMap<>(Map.of("paths", paths));
        try {
            found.put("read", read(data));
        } catch (Throwable refused) {
            found.put("read", null);
        }
        return found;
    }

    private static Map<String, Object> outcome(String counted, Step step) {
        Map<String, Object> found = new LinkedHashMap<>();
        int[] done = {0};
        try {
            step.run(done);
            found.put("exception", null);
        } catch (Throwable refused) {
            found.put("exception", refused.getClass().getSimpleName());
            String message = refused.getMessage();
            found.put("message", message == null ? null : message.replaceAll("in file /.*\\.bin", "in file FILE"));
            List<String> causes = new ArrayList<>();
            for (Throwable cause = refused.getCause(); cause != null; cause = cause.getCause())
                causes.add(cause.getClass().getSimpleName() + ": " + cause.getMessage());
            if (!causes.isEmpty())
                found.put("causes", causes);
        }
        if (counted != null)
            found.put(counted, done[0]);
        return found;
    }

    private static boolean isValid(RecordBatch batch) {
        try {
            return batch.isValid();
        } catch (RuntimeException tooSmall) {
            return false;
        }
    }

    private interface Look {
        void at(Record record) throws Exception;
    }

    private static Map<String, Object> each(List<MutableRecordBatch> batches,
        Function<MutableRecordBatch, Iterator<Record>> open, Look look) {
        return outcome("recordsBefore", done -> {
            for (MutableRecordBatch batch : batches)
                count(open.apply(batch), look, done);
        });
    }

    private static void count(Iterator<Record> records, Look look, int[] done) throws Exception {
        while (records.hasNext()) {
            look.at(records.next());
            done[0]++;
        }
    }

    /** Offsets are assigned in place. Without a batch there is nothing to judge. */
    private static void validate(byte[] data) {
        if (data.length == 0)
            return;
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(data));
        CompressionType codec = CompressionType.NONE;
        byte magic = 2;
        boolean control = false;
        for (MutableRecordBatch batch : records.batches()) {
            codec = batch.compressionType();
            magic = batch.magic();
            control |= batch.isControlBatch();
            break;
        }
        new LogValidator(records, new TopicPartition("t", 0), Time.SYSTEM, codec, Compression.of(codec).build(), false, magic,
            TimestampType.CREATE_TIME, Long.MAX_VALUE, Long.MAX_VALUE, 0,
            control ? AppendOrigin.COORDINATOR : AppendOrigin.CLIENT
        ).validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(0), Validator.NOT_COUNTED, BufferSupplier.NO_CACHING);
    }

    // ---- accessors

    private static Map<String, Object> read(byte[] data) throws Exception {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(data));
        List<Object> batches = new ArrayList<>();
        int position = 0;
        for (MutableRecordBatch batch : records.batches()) {
            batches.add(batch(batch, data, position));
            position += batch.sizeInBytes();
        }
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("sizeInBytes", records.sizeInBytes());
        found.put("validBytes", records.validBytes());
        found.put("batches", batches);
        return found;
    }

    private static Map<String, Object> batch(MutableRecordBatch batch, byte[] data, int position) throws Exception {
        Map<String, Object> found = new LinkedHashMap<>();
        boolean legacy = batch.magic() < 2;
        ByteBuffer raw = ByteBuffer.wrap(data);
        found.put("position", position);
        found.put("baseOffset", batch.baseOffset());
        found.put("batchLength", raw.getInt(position + 8));
        found.put("sizeInBytes", batch.sizeInBytes());
        found.put("partitionLeaderEpoch", batch.partitionLeaderEpoch());
        found.put("magic", batch.magic());
        found.put("crc", batch.checksum());
        found.put("attributes", legacy ? raw.get(position + 17) : raw.getShort(position + 21));
        found.put("codec", batch.compressionType().name);
        found.put("isCompressed", batch.isCompressed());
        found.put("timestampType", batch.timestampType().name);
        found.put("isTransactional", batch.isTransactional());
        found.put("isControl", batch.isControlBatch());
        found.put("deleteHorizonMs", batch.deleteHorizonMs().isPresent() ? batch.deleteHorizonMs().getAsLong() : null);
        found.put("lastOffset", batch.lastOffset());
        found.put("nextOffset", batch.nextOffset());
        found.put("baseTimestamp", legacy ? null : raw.getLong(position + 27));
        found.put("maxTimestamp", batch.maxTimestamp());
        found.put("producerId", batch.producerId());
        found.put("producerEpoch", batch.producerEpoch());
        found.put("hasProducerId", batch.hasProducerId());
        found.put("baseSequence", batch.baseSequence());
        found.put("lastSequence", batch.lastSequence());
        found.put("countOrNull", batch.countOrNull());
        found.put("isValid", batch.isValid());
        List<Object> records = new ArrayList<>();
        for (Record record : batch)
            records.add(record(batch, record));
        found.put("records", records);
        return found;
    }

    private static Map<String, Object> record(RecordBatch batch, Record record) throws Exception {
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("offset", record.offset());
        found.put("timestamp", record.timestamp());
        found.put("sequence", record.sequence());
        found.put("sizeInBytes", record.sizeInBytes());
        if (record instanceof AbstractLegacyRecordBatch outer) {
            LegacyRecord legacy = outer.outerRecord();
            found.put("magic", legacy.magic());
            found.put("crc", legacy.checksum());
            found.put("attributes", legacy.attributes());
            found.put("timestampType", Arrays.stream(TimestampType.values()).filter(record::hasTimestampType).findFirst()
                .orElse(TimestampType.NO_TIMESTAMP_TYPE).name);
            found.put("isValid", legacy.isValid());
        } else {
            found.put("attributes", ((DefaultRecord) record).attributes());
        }
        add(found, "key", record.key());
        add(found, "value", record.value());
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers())
            headers.add(Arrays.asList(header.key(), header.value()));
        found.put("headers", headers);
        if (batch.isControlBatch())
            try {
                found.put("control", control(record));
            } catch (RuntimeException unreadable) {
                found.put("control", null);
            }
        return found;
    }

    private static void add(Map<String, Object> found, String name, ByteBuffer bytes) throws Exception {
        byte[] copy = Utils.toNullableArray(bytes);
        if (copy == null || copy.length <= LARGE) {
            found.put(name, copy);
            return;
        }
        found.put(name + "Length", copy.length);
        found.put(name + "Sha256", HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(copy)));
    }

    private static Map<String, Object> control(Record record) {
        ControlRecordType type = ControlRecordType.parse(record.key());
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("type", type.name());
        found.put("typeId", ControlRecordType.parseTypeId(record.key()));
        switch (type) {
            case COMMIT, ABORT -> found.put("coordinatorEpoch", EndTransactionMarker.deserialize(record).coordinatorEpoch());
            case LEADER_CHANGE -> {
                LeaderChangeMessage message = ControlRecordUtils.deserializeLeaderChangeMessage(record);
                found.put("message", LeaderChangeMessageJsonConverter.write(message, (short) 0));
                found.put("messageVersionField", message.version());
            }
            case SNAPSHOT_HEADER -> found.put("message", SnapshotHeaderRecordJsonConverter.write(
                ControlRecordUtils.deserializeSnapshotHeaderRecord(record), (short) 0));
            case SNAPSHOT_FOOTER -> found.put("message", SnapshotFooterRecordJsonConverter.write(
                ControlRecordUtils.deserializeSnapshotFooterRecord(record), (short) 0));
            case KRAFT_VERSION -> found.put("message", KRaftVersionRecordJsonConverter.write(
                ControlRecordUtils.deserializeKRaftVersionRecord(record), (short) 0));
            case KRAFT_VOTERS -> found.put("message", VotersRecordJsonConverter.write(
                ControlRecordUtils.deserializeVotersRecord(record), (short) 0));
            default -> { }
        }
        return found;
    }
}
