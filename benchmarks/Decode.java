// Decodes a file of record batches with Apache Kafka's own classes, as its consumer does: the CRC of each batch checked,
// offset, timestamp, key, value and headers of each record read; keys and values stay views of the buffer, as there.
//
// usage: java -cp "JARS/*" Decode.java
// Reads lines "SECONDS PATH", decodes the file until so much time has passed, at least 3 times, and answers a line
// "SECONDS RECORDS": the thread's processor time of the fastest pass, and how many records the file has.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;

public class Decode {
    /** What was read, so that no read is optimised away. */
    static long seen;

    static long decode(byte[] data, BufferSupplier buffers) {
        long records = 0;
        for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
            batch.ensureValid();
            try (CloseableIterator<Record> each = batch.streamingIterator(buffers)) {
                while (each.hasNext()) {
                    Record record = each.next();
                    records++;
                    seen += record.offset() + record.timestamp() + size(record.key()) + size(record.value());
                    for (Header header : record.headers()) {
                        seen += header.key().length() + header.value().length;
                    }
                }
            }
        }
        return records;
    }

    static int size(ByteBuffer bytes) {
        return bytes == null ? -1 : bytes.remaining();
    }

    public static void main(String[] none) throws Exception {
        ThreadMXBean clock = ManagementFactory.getThreadMXBean();
        Map<String, byte[]> files = new HashMap<>();
        BufferSupplier buffers = BufferSupplier.create();
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            String[] words = line.split(" ", 2);
            byte[] data = files.get(words[1]);
            if (data == null) {
                data = Files.readAllBytes(Path.of(words[1]));
                files.put(words[1], data);
            }
            long started = System.nanoTime();
            long wanted = (long) (Double.parseDouble(words[0]) * 1e9);
            long least = Long.MAX_VALUE;
            long records = 0;
            int runs = 0;
            do {
                runs++;
                long began = clock.getCurrentThreadCpuTime();
                records = decode(data, buffers);
                least = Math.min(least, clock.getCurrentThreadCpuTime() - began);
            } while (runs < 3 || System.nanoTime() - started < wanted);
            System.out.println(least / 1e9 + " " + records);
        }
        System.exit(seen == 0 ? 1 : 0);
    }
}
