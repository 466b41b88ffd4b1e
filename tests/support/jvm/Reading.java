import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;

/** Records as MemoryRecords, ensureValid and streamingIterator give them: kafkarec's reference path. */
final class Reading {
    private Reading() { }

    static byte[] bytes(String hex) {
        return HexFormat.of().parseHex(hex);
    }

    /** FILE...: for each one line a record, then "end" with the bytes that are left, or "refused". */
    static void main(String[] files) throws Exception {
        for (String file : files) {
            byte[] data = Files.readAllBytes(Path.of(file));
            StringBuilder lines = new StringBuilder();
            try {
                MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(data));
                int bytes = 0;
                for (MutableRecordBatch batch : records.batches()) {
                    bytes += batch.sizeInBytes();
                }
                for (MutableRecordBatch batch : records.batches())
                    batch.ensureValid();
                for (MutableRecordBatch batch : records.batches())
                    add(lines, batch);
                lines.append("end ").append(data.length - bytes).append('\n');
                System.out.print(lines);
            } catch (Exception | Error refusal) {
                System.out.println("refused " + refusal.getClass().getSimpleName());
            }
        }
    }

    private static void add(StringBuilder lines, MutableRecordBatch batch) {
        try (CloseableIterator<Record> records = batch.streamingIterator(BufferSupplier.create())) {
            while (records.hasNext()) {
                Record record = records.next();
                lines.append(record.offset()).append(' ').append(record.timestamp()).append(' ')
                    .append(timestampType(batch, record)).append(' ').append(record.sequence()).append(' ')
                    .append(batch.isControlBatch() ? 1 : 0).append(' ')
                    .append(hex(record.key())).append(' ').append(hex(record.value()));
                add(lines, record.headers());
            }
        }
    }

    /** A message of magic 0 inside of one of magic 1 has none of its own. */
    private static int timestampType(MutableRecordBatch batch, Record record) {
        if (batch.magic() == 2)
            return batch.timestampType().id;
        for (TimestampType type : TimestampType.values())
            if (record.hasTimestampType(type))
                return type.id;
        throw new IllegalStateException();
    }

    /** In the same words, as a consumer got it. */
    static void add(StringBuilder lines, ConsumerRecord<byte[], byte[]> record) {
        lines.append(record.offset()).append(' ').append(record.timestamp()).append(' ')
            .append(record.timestampType().id).append(' ')
            .append(hex(record.key())).append(' ').append(hex(record.value()));
        add(lines, record.headers().toArray());
    }

    private static void add(StringBuilder lines, Header[] headers) {
        for (Header header : headers)
            lines.append(' ').append(hex(header.key().getBytes(StandardCharsets.UTF_8)))
                .append('=').append(hex(header.value()));
        lines.append('\n');
    }

    /** "null", or the bytes as hex behind a dot. */
    static String hex(ByteBuffer bytes) {
        return hex(Utils.toNullableArray(bytes));
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "null" : "." + HexFormat.of().formatHex(bytes);
    }
}
