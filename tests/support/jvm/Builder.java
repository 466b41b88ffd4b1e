import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.AbstractRecords;
import org.apache.kafka.common.record.internal.CompressionRatioEstimator;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;

/**
 * Kafka's writer classes, told line by line what to do. Bytes are '.' and hex, null is '-', header lists are '[]' or
 * key=value;key=value.
 */
final class Builder {
    private Builder() { }

    private static MemoryRecordsBuilder builder;

    /** SCRIPT: for each line "ok" with what came back, or "refused" with the exception's class. */
    static void script(String[] arguments) {
        StringBuilder lines = new StringBuilder();
        for (String line : arguments[0].split("\n")) {
            try {
                String answer = run(line.split(" "));
                lines.append("ok ").append(answer).append('\n');
            } catch (Exception refusal) {
                lines.append("refused ").append(refusal.getClass().getSimpleName()).append('\n');
            }
        }
        System.out.print(lines);
    }

    private static String run(String[] w) {
        switch (w[0]) {
            case "new":
                builder = new MemoryRecordsBuilder(new ByteBufferOutputStream(512), Byte.parseByte(w[1]),
                    compression(w[2], w[3]), timestampType(w[4]), number(w[6]), number(w[5]), number(w[8]),
                    Short.parseShort(w[9]), integer(w[10]), flag(w[11]), flag(w[12]), integer(w[13]), integer(w[7]),
                    number(w[14]));
                return "";
            case "ratio":
                builder.setEstimatedCompressionRatio(Float.parseFloat(w[1]));
                return "";
            case "append":
                if (w[5].equals("-"))
                    builder.append(number(w[1]), buffer(w[2]), buffer(w[3]), headers(w[4]));
                else
                    builder.appendWithOffset(number(w[5]), number(w[1]), buffer(w[2]), buffer(w[3]), headers(w[4]));
                return "";
            case "control":
                builder.appendControlRecordWithOffset(number(w[5]),
                    new SimpleRecord(number(w[1]), buffer(w[2]), buffer(w[3]), headers(w[4])));
                return "";
            case "room":
                return "" + builder.hasRoomFor(number(w[1]), buffer(w[2]), buffer(w[3]), headers(w[4]));
            case "marker":
                builder.appendEndTxnMarker(number(w[1]),
                    new EndTransactionMarker(ControlRecordType.valueOf(w[2]), integer(w[3])));
                return "";
            case "leader":
                builder.appendLeaderChangeMessage(number(w[1]), new LeaderChangeMessage().setLeaderId(integer(w[2]))
                    .setVoters(electors(w[3])).setGrantingVoters(electors(w[4])));
                return "";
            case "snapshotheader":
                builder.appendSnapshotHeaderMessage(number(w[1]),
                    new SnapshotHeaderRecord().setLastContainedLogTimestamp(number(w[2])));
                return "";
            case "snapshotfooter":
                builder.appendSnapshotFooterMessage(number(w[1]), new SnapshotFooterRecord());
                return "";
            case "version":
                builder.appendKRaftVersionMessage(number(w[1]),
                    new KRaftVersionRecord().setKRaftVersion(Short.parseShort(w[2])));
                return "";
            case "voters":
                builder.appendVotersMessage(number(w[1]), new VotersRecord().setVoters(voters(w)));
                return "";
            case "last":
                builder.overrideLastOffset(number(w[1]));
                return "";
            case "abort":
                builder.abort();
                return "";
            case "facts":
                return builder.numRecords() + " " + builder.isFull() + " " + builder.isClosed() + " "
                    + builder.estimatedSizeInBytes() + " " + builder.hasDeleteHorizonMs();
            case "time":
                return String.valueOf(builder.info().maxTimestamp);
            case "build":
                MemoryRecords records = builder.build();
                return Reading.hex(records.buffer()) + " " + Float.floatToIntBits((float) builder.compressionRatio());
            default:
                throw new IllegalStateException(w[0]);
        }
    }

    /** LINES: the estimates of AbstractRecords and the steps of CompressionRatioEstimator, one answer a line. */
    static void estimates(String[] arguments) {
        StringBuilder lines = new StringBuilder();
        for (String line : arguments[0].split("\n")) {
            String[] w = line.split(" ");
            switch (w[0]) {
                case "size":
                    List<SimpleRecord> records = new ArrayList<>();
                    for (int i = 3; i < w.length; i += 4)
                        records.add(new SimpleRecord(number(w[i]), buffer(w[i + 1]), buffer(w[i + 2]), headers(w[i + 3])));
                    lines.append(AbstractRecords.estimateSizeInBytes(
                        Byte.parseByte(w[1]), CompressionType.forName(w[2]), records));
                    break;
                case "observed":
                    lines.append(Float.floatToIntBits(CompressionRatioEstimator.updateEstimation(
                        w[1], CompressionType.forName(w[2]), Float.parseFloat(w[3]))));
                    break;
                default:
                    lines.append(Float.floatToIntBits(
                        CompressionRatioEstimator.estimation(w[1], CompressionType.forName(w[2]))));
            }
            lines.append('\n');
        }
        System.out.print(lines);
    }

    /** CODEC LEVEL MAGIC FROM TO: the file FROM through Kafka's output stream into TO. */
    static void pack(String[] w) throws Exception {
        ByteBufferOutputStream out = new ByteBufferOutputStream(512);
        try (OutputStream stream = compression(w[0], w[1]).wrapForOutput(out, Byte.parseByte(w[2]))) {
            stream.write(Files.readAllBytes(Path.of(w[3])));
        }
        ByteBuffer written = out.buffer();
        Files.write(Path.of(w[4]), Arrays.copyOf(written.array(), written.position()));
    }

    /** CODEC MAGIC FROM TO: the file FROM through Kafka's input stream into TO. */
    static void unpack(String[] w) throws Exception {
        ByteBuffer packed = ByteBuffer.wrap(Files.readAllBytes(Path.of(w[2])));
        try (InputStream stream = compression(w[0], "-").wrapForInput(packed, Byte.parseByte(w[1]), BufferSupplier.create())) {
            Files.write(Path.of(w[3]), stream.readAllBytes());
        }
    }

    /** FILE LAST-OFFSET|- LEADER-EPOCH|- TIMESTAMP-TYPE TIMESTAMP|-: every batch of the file so, then the bytes in hex. */
    static void stamp(String[] w) throws Exception {
        ByteBuffer data = ByteBuffer.wrap(Files.readAllBytes(Path.of(w[0])));
        try {
            for (MutableRecordBatch batch : MemoryRecords.readableRecords(data).batches()) {
                if (!w[1].equals("-"))
                    batch.setLastOffset(number(w[1]));
                if (!w[2].equals("-"))
                    batch.setPartitionLeaderEpoch(integer(w[2]));
                if (!w[4].equals("-"))
                    batch.setMaxTimestamp(timestampType(w[3]), number(w[4]));
            }
            System.out.print(Reading.hex(data));
        } catch (Exception refusal) {
            System.out.print("refused " + refusal.getClass().getSimpleName());
        }
    }

    private static Compression compression(String name, String level) {
        if (level.equals("-"))
            return Compression.of(name).build();
        switch (name) {
            case "gzip": return Compression.gzip().level(integer(level)).build();
            case "lz4": return Compression.lz4().level(integer(level)).build();
            case "zstd": return Compression.zstd().level(integer(level)).build();
            default: throw new IllegalArgumentException(name);
        }
    }

    private static TimestampType timestampType(String id) {
        for (TimestampType type : TimestampType.values())
            if (type.id == integer(id))
                return type;
        throw new IllegalArgumentException(id);
    }

    private static List<LeaderChangeMessage.Voter> electors(String ids) {
        List<LeaderChangeMessage.Voter> all = new ArrayList<>();
        for (String id : ids.equals("-") ? new String[0] : ids.split(","))
            all.add(new LeaderChangeMessage.Voter().setVoterId(integer(id)));
        return all;
    }

    /** voters TS, then for each voter: id, high and low bits of its uuid, min, max, name, host, port. */
    private static List<VotersRecord.Voter> voters(String[] w) {
        List<VotersRecord.Voter> all = new ArrayList<>();
        for (int i = 2; i < w.length; i += 8) {
            VotersRecord.EndpointCollection endpoints = new VotersRecord.EndpointCollection();
            endpoints.add(new VotersRecord.Endpoint().setName(w[i + 5]).setHost(w[i + 6]).setPort(integer(w[i + 7])));
            all.add(new VotersRecord.Voter().setVoterId(integer(w[i]))
                .setVoterDirectoryId(new Uuid(number(w[i + 1]), number(w[i + 2]))).setEndpoints(endpoints)
                .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature()
                    .setMinSupportedVersion(Short.parseShort(w[i + 3])).setMaxSupportedVersion(Short.parseShort(w[i + 4]))));
        }
        return all;
    }

    private static long number(String word) {
        return Long.parseLong(word);
    }

    private static int integer(String word) {
        return Integer.parseInt(word);
    }

    private static boolean flag(String word) {
        return word.equals("1");
    }

    private static ByteBuffer buffer(String word) {
        return word.equals("-") ? null : ByteBuffer.wrap(Reading.bytes(word.substring(1)));
    }

    private static Header[] headers(String word) {
        if (word.equals("-"))
            return null;
        List<Header> all = new ArrayList<>();
        for (String pair : word.equals("[]") ? new String[0] : word.split(";")) {
            String[] sides = pair.split("=");
            ByteBuffer value = buffer(sides[1]);
            all.add(new RecordHeader(new String(buffer(sides[0]).array(), java.nio.charset.StandardCharsets.UTF_8),
                value == null ? null : value.array()));
        }
        return all.toArray(new Header[0]);
    }
}
