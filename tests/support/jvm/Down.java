import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.Map;

import org.apache.kafka.common.record.ConvertedRecords;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;

/** MemoryRecords.downConvert of kafka-clients 3.9, which 4.0 removed, as a server. */
public final class Down {
    private Down() { }

    public static void main(String[] arguments) throws IOException {
        Server.serve(Map.of("down", Down::down));
    }

    /** MAGIC BATCHES: prints the number of converted records and the converted batches; batches are in hex. */
    private static void down(String[] arguments) {
        ConvertedRecords<?> converted = MemoryRecords.readableRecords(ByteBuffer.wrap(HexFormat.of().parseHex(arguments[1])))
            .downConvert(Byte.parseByte(arguments[0]), Long.MIN_VALUE, Time.SYSTEM);
        byte[] found = Utils.toArray(((MemoryRecords) converted.records()).buffer());
        System.out.print(converted.recordConversionStats().numRecordsConverted() + " " + HexFormat.of().formatHex(found));
    }
}
