import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

import org.apache.kafka.common.record.ConvertedRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.utils.Time;

/**
 * MemoryRecords.downConvert of kafka-clients 3.9, which 4.0 removed, as a server on standard input and output.
 *
 * question: byte magic, int length, the batches
 * answer:   int converted records, or -1 after an exception; int length, the batches or the exception in words
 */
public final class Down {
    public static void main(String[] arguments) throws IOException {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out));
        while (true) {
            byte magic;
            try {
                magic = in.readByte();
            } catch (EOFException end) {
                return;
            }
            byte[] data = in.readNBytes(in.readInt());
            int records = -1;
            byte[] found;
            try {
                ConvertedRecords<? extends org.apache.kafka.common.record.Records> converted =
                    MemoryRecords.readableRecords(ByteBuffer.wrap(data)).downConvert(magic, Long.MIN_VALUE, Time.SYSTEM);
                ByteBuffer buffer = ((MemoryRecords) converted.records()).buffer();
                found = new byte[buffer.remaining()];
                buffer.get(found);
                records = converted.recordConversionStats().numRecordsConverted();
            } catch (Exception | Error refusal) {
                found = (refusal.getClass().getSimpleName() + ": " + refusal.getMessage()).getBytes(StandardCharsets.UTF_8);
            }
            out.writeInt(records);
            out.writeInt(found.length);
            out.write(found);
            out.flush();
        }
    }
}
