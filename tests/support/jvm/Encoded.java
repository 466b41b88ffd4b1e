import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Iterator;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.CompressionRatioEstimator;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;

/**
 * Every batch of a file built anew by MemoryRecordsBuilder from the records that Kafka reads of it.
 *
 * Sizes of compressed batches are those of the file: the estimator is told what the file's codec library made of them,
 * so that the next batch has to end where it ends there.
 */
final class Encoded {
    private Encoded() { }

    private static final String TOPIC = "encoded";
    private static final int LENGTH_AT = 8;
    private static final int LENGTH_END = 12;

    /** FILE BATCH-SIZE|-: "same BATCHES RECORDS", or what is different first. "-": where batches end is not looked at. */
    static void main(String[] w) throws Exception {
        ByteBuffer file = ByteBuffer.wrap(Files.readAllBytes(Path.of(w[0])));
        boolean sized = !w[1].equals("-");
        int limit = sized ? Integer.parseInt(w[1]) : Integer.MAX_VALUE;
        CompressionRatioEstimator.resetEstimation(TOPIC);
        int batches = 0;
        int records = 0;
        MemoryRecordsBuilder before = null;
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(file).batches()) {
            batch.ensureValid();
            String name = "batch " + batches + " up to offset " + batch.lastOffset() + ": ";
            Iterator<Record> rows = batch.streamingIterator(BufferSupplier.create());
            Record first = rows.next();
            if (before != null && before.hasRoomFor(first.timestamp(), first.key(), first.value(), first.headers())) {
                System.out.print(name + "the one before had room for its first record");
                return;
            }
            boolean looked = sized && !(batch.magic() < 2 && !batch.isCompressed());
            MemoryRecordsBuilder builder = builder(batch, first.offset(), limit);
            builder.setEstimatedCompressionRatio(CompressionRatioEstimator.estimation(TOPIC, batch.compressionType()));
            for (Record row = first; row != null; row = rows.hasNext() ? rows.next() : null) {
                if (looked && !builder.hasRoomFor(row.timestamp(), row.key(), row.value(), row.headers())) {
                    System.out.print(name + "no room for offset " + row.offset());
                    return;
                }
                append(builder, batch, row);
                records++;
            }
            String difference = difference(batch, builder);
            if (difference != null) {
                System.out.print(name + difference);
                return;
            }
            before = looked ? builder : null;
            batches++;
        }
        System.out.print("same " + batches + " " + records);
    }

    private static String difference(MutableRecordBatch batch, MemoryRecordsBuilder filled) throws Exception {
        ByteBuffer written = ByteBuffer.allocate(batch.sizeInBytes());
        batch.writeTo(written);
        byte[] ours = written.array();
        int payload = filled.uncompressedBytesWritten();
        MemoryRecordsBuilder builder = again(batch);
        byte[] theirs = Arrays.copyOf(builder.build().buffer().array(), builder.build().buffer().limit());
        if (!batch.isCompressed())
            return Arrays.equals(ours, theirs) ? null : "other bytes";
        int head = headerSize(batch.magic());
        CompressionRatioEstimator.updateEstimation(TOPIC, batch.compressionType(),
            (float) (ours.length - head) / (payload - head));
        if (!Arrays.equals(fields(ours, batch.magic()), fields(theirs, batch.magic())))
            return "other header fields";
        return Arrays.equals(content(batch, ours, head), content(batch, theirs, head)) ? null : "other records";
    }

    /** A second builder with the same records, to be closed: the first one is asked for room by the next batch. */
    private static MemoryRecordsBuilder again(MutableRecordBatch batch) {
        Iterator<Record> rows = batch.streamingIterator(BufferSupplier.create());
        Record row = rows.next();
        MemoryRecordsBuilder builder = builder(batch, row.offset(), Integer.MAX_VALUE);
        for (; row != null; row = rows.hasNext() ? rows.next() : null)
            append(builder, batch, row);
        return builder;
    }

    private static int headerSize(byte magic) {
        return magic == 2 ? 61 : magic == 1 ? 34 : 26;
    }

    private static MemoryRecordsBuilder builder(MutableRecordBatch batch, long baseOffset, int limit) {
        return new MemoryRecordsBuilder(new ByteBufferOutputStream(512), batch.magic(),
            Compression.of(batch.compressionType()).build(), batch.timestampType(), baseOffset, batch.maxTimestamp(),
            batch.producerId(), batch.producerEpoch(), batch.baseSequence(), batch.isTransactional(),
            batch.isControlBatch(), batch.partitionLeaderEpoch(), limit);
    }

    private static void append(MemoryRecordsBuilder builder, MutableRecordBatch batch, Record row) {
        if (batch.isControlBatch())
            builder.appendControlRecordWithOffset(row.offset(), new SimpleRecord(row));
        else
            builder.appendWithOffset(row.offset(), new SimpleRecord(row));
    }

    /** Everything in front of the payload but size, checksum, and a wrapper's length of its value. */
    private static byte[] fields(byte[] batch, byte magic) {
        byte[] found = Arrays.copyOf(batch, headerSize(magic));
        Arrays.fill(found, LENGTH_AT, LENGTH_END, (byte) 0);
        int checksum = magic == 2 ? 17 : 12;
        Arrays.fill(found, checksum, checksum + 4, (byte) 0);
        if (magic < 2)
            Arrays.fill(found, found.length - 4, found.length, (byte) 0);
        return found;
    }

    private static byte[] content(MutableRecordBatch batch, byte[] all, int head) throws Exception {
        CompressionType type = batch.compressionType();
        ByteBuffer packed = ByteBuffer.wrap(all, head, all.length - head).slice();
        try (InputStream in = Compression.of(type).build().wrapForInput(packed, batch.magic(), BufferSupplier.create())) {
            return in.readAllBytes();
        }
    }
}
