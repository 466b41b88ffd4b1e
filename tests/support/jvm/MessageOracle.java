import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.transaction.TransactionCoordinatorRecordSerde;
import org.apache.kafka.server.common.serialization.BytesApiMessageSerde;

/**
 * Asks the decoders inside Kafka's DumpLogSegments what they print for a record, and Kafka's own serdes for its bytes.
 *
 * A line in: decoder flag, key, value (hex, "-" for null, "0" for empty), offset. A line out: key text, payload text
 * ("-" for none, else "=" and base64; "!" in front when the decoder threw), then key and value as Kafka writes them again.
 */
public class MessageOracle {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        String tool = "org.apache.kafka.tools.DumpLogSegments$";
        Constructor<?> options = Class.forName(tool + "DumpLogSegmentsOptions").getDeclaredConstructor(String[].class);
        Method parserOf = options.getDeclaringClass().getDeclaredMethod("messageParser");
        Method parse = Class.forName(tool + "MessageParser").getMethod("parse", Record.class);
        options.setAccessible(true);
        parserOf.setAccessible(true);
        parse.setAccessible(true);
        Map<String, Object> parsers = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = new PrintStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out)), false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            byte[] key = bytes(words[1]);
            byte[] value = bytes(words[2]);
            if (!parsers.containsKey(words[0])) {
                Object made = options.newInstance((Object) new String[] {"--files", "x.log", words[0]});
                parsers.put(words[0], parserOf.invoke(made));
            }
            String texts;
            try {
                Object result = parse.invoke(parsers.get(words[0]), record(key, value, Long.parseLong(words[3])));
                texts = part(result, "key") + " " + part(result, "value");
            } catch (InvocationTargetException e) {
                texts = "!" + base64(e.getCause().getMessage()) + " -";
            }
            out.println(texts + " " + rewritten(words[0], key, value));
        }
        out.flush();
    }

    private static byte[] bytes(String word) {
        return word.equals("-") ? null : word.equals("0") ? new byte[0] : HEX.parseHex(word);
    }

    private static String base64(Object text) {
        byte[] utf8 = text.toString().getBytes(StandardCharsets.UTF_8);
        return "=" + Base64.getEncoder().encodeToString(utf8);
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "-" : "=" + HEX.formatHex(bytes);
    }

    private static String part(Object result, String name) throws Exception {
        Method getter = result.getClass().getDeclaredMethod(name);
        getter.setAccessible(true);
        Object found = ((Optional<?>) getter.invoke(result)).orElse(null);
        return found == null ? "-" : base64(found);
    }

    private static ByteBuffer buffer(byte[] bytes) {
        return bytes == null ? null : ByteBuffer.wrap(bytes);
    }

    private static Record record(byte[] key, byte[] value, long offset) {
        return MemoryRecords.withRecords(offset, Compression.NONE, new SimpleRecord(0, key, value)).records().iterator().next();
    }

    private static String rewritten(String flag, byte[] key, byte[] value) {
        try {
            return switch (flag) {
                case "--offsets-decoder" -> again(new GroupCoordinatorRecordSerde(), key, value);
                case "--transaction-log-decoder" -> again(new TransactionCoordinatorRecordSerde(), key, value);
                case "--share-group-state-decoder" -> again(new ShareCoordinatorRecordSerde(), key, value);
                case "--cluster-metadata-decoder" -> again(new BytesApiMessageSerde() {
                    @Override
                    public ApiMessage apiMessageFor(short id) {
                        return org.apache.kafka.common.metadata.MetadataRecordType.fromId(id).newMetadataRecord();
                    }
                }, value);
                default -> again(new BytesApiMessageSerde() {
                    @Override
                    public ApiMessage apiMessageFor(short id) {
                        return org.apache.kafka.server.log.remote.metadata.storage.generated.MetadataRecordType
                            .fromId(id).newMetadataRecord();
                    }
                }, value);
            };
        } catch (RuntimeException e) {
            return "- -";
        }
    }

    private static String again(CoordinatorRecordSerde serde, byte[] key, byte[] value) {
        var record = serde.deserialize(buffer(key), buffer(value));
        return hex(serde.serializeKey(record)) + " " + hex(serde.serializeValue(record));
    }

    private static String again(BytesApiMessageSerde serde, byte[] value) {
        return "- " + hex(serde.serialize(serde.deserialize(value)));
    }
}
