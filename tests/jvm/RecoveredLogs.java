import java.io.*;
import java.nio.ByteBuffer;
import java.nio.file.*;
import java.util.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.*;

/** Random partition folders, and what LogSegment.recover makes of them: RecoveredLogs OUT FIRST_SEED END_SEED BATCHES. */
public class RecoveredLogs {
    static Random r; static int most;
    static final KafkaScheduler SCHED = new KafkaScheduler(1);
    static final Compression[] CODECS = {Compression.NONE, Compression.gzip().build(), Compression.snappy().build(), Compression.lz4().build(), Compression.zstd().build()};

    static class Producer { long id; short epoch = 0; int seq = 0; boolean open = false; boolean txn; }

    static long offset, now; static int leader; static List<Producer> producers; static boolean legacyFirst, tv2;

    static byte[] bytes(int n) { byte[] b = new byte[n]; r.nextBytes(b); return b; }

    static MemoryRecords batch(byte magic, long base, Producer p, int count, boolean appendTime, boolean gaps) {
        ByteBuffer buf = ByteBuffer.allocate(200_000);
        Compression c = CODECS[r.nextInt(magic < 2 ? 4 : 5)];
        if (r.nextInt(3) == 0) c = Compression.NONE;
        if (magic < 2) p = null;
        org.apache.kafka.common.record.TimestampType type = magic == 0 ? org.apache.kafka.common.record.TimestampType.NO_TIMESTAMP_TYPE : appendTime ? org.apache.kafka.common.record.TimestampType.LOG_APPEND_TIME : org.apache.kafka.common.record.TimestampType.CREATE_TIME;
        boolean noSeq = false;
        MemoryRecordsBuilder b = new MemoryRecordsBuilder(buf, magic, c, type, base, appendTime && magic > 0 ? now : -1L,
            p == null ? -1L : p.id, p == null ? (short) -1 : p.epoch, p == null || noSeq ? -1 : p.seq, p != null && p.txn, false, leader, buf.capacity());
        long at = base;
        for (int i = 0; i < count; i++) {
            long ts = r.nextInt(40) == 0 ? -1 : Math.max(0, now + r.nextInt(2000) - 1000);
            if (magic == 0) ts = -1;
            b.appendWithOffset(at, ts, r.nextBoolean() ? null : bytes(r.nextInt(20)), r.nextInt(5) == 0 ? null : bytes(r.nextInt(r.nextInt(4) == 0 ? most * 6 : most / 2 + 10)));
            at += 1;
            if (gaps && magic == 2) at += r.nextInt(5);
            if (magic < 2 && c == Compression.NONE) break;
        }
        MemoryRecords m = b.build();
        return m;
    }

    static byte[] raw(MemoryRecords m) { ByteBuffer d = m.buffer().duplicate(); byte[] x = new byte[d.remaining()]; d.get(x); return x; }

    static long lastOf(MemoryRecords m) { long l = -1; for (RecordBatch b : m.batches()) l = b.lastOffset(); return l; }

    /** one batch onto the log */
    static void one(ByteArrayOutputStream out, boolean appendTime, boolean compacted) throws IOException {
        now += r.nextInt(50);
        if (r.nextInt(30) == 0) leader += 1 + r.nextInt(3);
        if (compacted && r.nextInt(4) == 0) offset += r.nextInt(50);
        int kind = r.nextInt(20);
        byte magic = legacyFirst ? (byte) r.nextInt(3) : 2;
        if (legacyFirst && r.nextInt(30) == 0) legacyFirst = false;
        Producer p = producers.isEmpty() || r.nextInt(4) == 0 ? null : producers.get(r.nextInt(producers.size()));
        if (kind < 14) {
            MemoryRecords m = batch(magic, offset, p, 1 + r.nextInt(6), appendTime, compacted);
            if (magic == 2 && p != null) {
                int n = (int) (lastOf(m) - offset) + 1; p.seq = (int) ((p.seq + (long) n) % (1L << 31)); if (p.txn) p.open = true;
                if (r.nextInt(60) == 0) { p.epoch++; p.seq = 0; }
            }
            out.write(raw(m)); offset = lastOf(m) + 1;
        } else if (kind < 18) {
            for (Producer q : producers) if (q.txn && (q.open || r.nextInt(10) == 0) && r.nextInt(2) == 0) { marker(out, q, compacted); break; }
        } else if (kind == 18 && compacted) {
            ByteBuffer e = ByteBuffer.allocate(61); long last = offset + r.nextInt(4);
            boolean withP = p != null && !p.txn;
            DefaultRecordBatch.writeEmptyHeader(e, (byte) 2, withP ? p.id : -1L, withP ? p.epoch : (short) -1, withP ? p.seq : -1, offset, last, leader,
                org.apache.kafka.common.record.TimestampType.CREATE_TIME, now + r.nextInt(3000) - 1000, false, false);
            if (withP) p.seq += (int) (last - offset) + 1;
            out.write(e.array()); offset = last + 1;
        }
    }

    static void marker(ByteArrayOutputStream out, Producer q, boolean compacted) throws IOException {
        if (tv2) q.epoch++;
        MemoryRecords m;
        if (compacted && !q.open && r.nextInt(2) == 0) {
            ByteBuffer e = ByteBuffer.allocate(61);
            DefaultRecordBatch.writeEmptyHeader(e, (byte) 2, q.id, q.epoch, -1, offset, offset, leader, org.apache.kafka.common.record.TimestampType.CREATE_TIME, now, true, true);
            out.write(e.array()); offset++; if (tv2) q.seq = 0; return;
        }
        m = MemoryRecords.withEndTransactionMarker(offset, now + r.nextInt(10), leader, q.id, q.epoch,
            new EndTransactionMarker(r.nextBoolean() ? ControlRecordType.ABORT : ControlRecordType.COMMIT, r.nextInt(5)));
        if (tv2) q.seq = 0;
        q.open = false;
        out.write(raw(m)); offset++;
    }

    public static void main(String[] a) throws Exception {
        int from = Integer.parseInt(a[1]), to = Integer.parseInt(a[2]); most = Integer.parseInt(a[3]);
        for (int n = from; n < to; n++) {
            r = new Random(n);
            offset = r.nextInt(3) == 0 ? r.nextInt(5_000_000) : 0; now = r.nextInt(8) == 0 ? 0 : 1_700_000_000_000L; leader = r.nextInt(3);
            legacyFirst = r.nextInt(5) == 0; tv2 = r.nextBoolean();
            producers = new ArrayList<>();
            int np = r.nextInt(5) == 0 ? 0 : 1 + r.nextInt(r.nextInt(6) == 0 ? 30 : 6);
            for (int i = 0; i < np; i++) { Producer p = new Producer(); p.id = r.nextInt(3) == 0 ? r.nextLong() & Long.MAX_VALUE : i * (1 + r.nextInt(40)); p.txn = r.nextBoolean(); if (r.nextInt(9) == 0) p.seq = Integer.MAX_VALUE - 20; 
                boolean dup = false; for (Producer q : producers) dup |= q.id == p.id; if (!dup) producers.add(p); }
            boolean appendTime = r.nextInt(4) == 0, compacted = r.nextInt(3) == 0;
            int interval = new int[]{0, 1, 64, 256, 256, 1000, 4096, 4096, 16384}[r.nextInt(9)];
            Path in = Paths.get(a[0], "in", "log" + n + "-0"), outd = Paths.get(a[0], "out", "log" + n + "-0");
            Files.createDirectories(in); Files.createDirectories(outd);
            int segs = 1 + r.nextInt(4); List<Long> bases = new ArrayList<>();
            for (int s = 0; s < segs; s++) {
                bases.add(offset);
                ByteArrayOutputStream log = new ByteArrayOutputStream();
                int batches = r.nextInt(8) == 0 ? r.nextInt(3) : r.nextInt(most);
                for (int i = 0; i < batches; i++) one(log, appendTime, compacted);
                byte[] all = log.toByteArray();
                String name = String.format("%020d.log", bases.get(s));
                if (s == segs - 1) {
                    int tail = r.nextInt(6);
                    if (tail == 0 && all.length > 100) all = Arrays.copyOf(all, all.length - 1 - r.nextInt(60));
                    if (tail == 1) all = Arrays.copyOf(all, all.length + r.nextInt(5000));
                }
                Files.write(in.resolve(name), all); Files.write(outd.resolve(name), all);
                if (log.size() == 0) offset += 1; // another name for the next segment
                if (compacted) offset += r.nextInt(9);
            }
            Files.writeString(in.resolve("interval"), "" + interval);
            Properties props = new Properties(); props.put("index.interval.bytes", "" + interval); props.put("segment.index.bytes", "1048576");
            LogConfig config = new LogConfig(props);
            TopicPartition tp = new TopicPartition("log" + n, 0);
            ProducerStateManager psm = new ProducerStateManager(tp, outd.toFile(), 900000, new ProducerStateManagerConfig(Integer.MAX_VALUE, false), Time.SYSTEM);
            LeaderEpochFileCache cache = new LeaderEpochFileCache(tp, new LeaderEpochCheckpointFile(LeaderEpochCheckpointFile.newFile(outd.toFile()), new LogDirFailureChannel(1)), SCHED);
            String failed = "";
            try {
                for (int s = 0; s < segs; s++) {
                    psm.updateMapEndOffset(bases.get(s)); if (s > 0) psm.takeSnapshot(false);
                    LogSegment seg = LogSegment.open(outd.toFile(), bases.get(s), config, Time.SYSTEM, true, 0, false, "");
                    seg.recover(psm, cache);
                    seg.close();
                }
                psm.takeSnapshot(false);
            } catch (Exception e) { failed = e.toString(); }
            if (!failed.isEmpty()) Files.writeString(outd.resolve("failed"), failed);
        }
    }
}
