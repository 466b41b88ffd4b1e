import java.io.File;
import java.io.PrintWriter;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Random;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.InvalidTxnStateException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.CompletedTxn;
import org.apache.kafka.storage.internals.log.ProducerAppendInfo;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/**
 * What ProducerStateManager and ProducerAppendInfo say to random batches of three producers, as a client's.
 *
 * arguments: file, runs. A line a batch, after "run" at each new begin:
 * "d producer epoch base_offset last_offset base_sequence last_sequence transactional verdict" for data,
 * "m producer epoch offset" for an end marker. The state takes every batch, as in replication.
 */
public final class JudgedBatches {
    private final Random random;
    private final PrintWriter out;
    private final ProducerStateManager states;
    private final int[] next = new int[3];
    private final short[] epoch = new short[3];
    private long offset;

    private JudgedBatches(Random random, PrintWriter out) throws Exception {
        this.random = random;
        this.out = out;
        File folder = Files.createTempDirectory("judged").toFile();
        folder.deleteOnExit();
        states = new ProducerStateManager(new TopicPartition("t", 0), folder, 1000,
            new ProducerStateManagerConfig(Integer.MAX_VALUE, false), Time.SYSTEM);
        if (random.nextInt(3) == 0)
            Arrays.fill(next, Integer.MAX_VALUE - 30);  // sequences will wrap
    }

    public static void main(String[] arguments) throws Exception {
        Random random = new Random(11);
        try (PrintWriter out = new PrintWriter(arguments[0])) {
            for (int run = 0; run < Integer.parseInt(arguments[1]); run++) {
                out.println("run");
                JudgedBatches judged = new JudgedBatches(random, out);
                boolean goesOn = true;
                for (int i = 0; i < 120 && goesOn; i++)
                    goesOn = judged.step();
            }
        }
    }

    private boolean step() throws Exception {
        int producer = random.nextInt(3);
        if (producer > 0 && random.nextInt(6) == 0) {
            marker(producer);
            return true;
        }
        return data(producer, producer == 1 || producer == 2 && random.nextInt(6) == 0);
    }

    private void marker(int producer) {
        if (random.nextBoolean()) {
            epoch[producer]++;
            next[producer] = 0;
        }
        ControlRecordType type = random.nextBoolean() ? ControlRecordType.ABORT : ControlRecordType.COMMIT;
        RecordBatch batch = MemoryRecords.withEndTransactionMarker(offset, 5L, 0, producer, epoch[producer],
            new EndTransactionMarker(type, 1)).batches().iterator().next();
        ProducerAppendInfo info = states.prepareUpdate(producer, AppendOrigin.REPLICATION);
        Optional<CompletedTxn> completed = info.append(batch, Optional.empty());
        states.update(info);
        completed.ifPresent(states::completeTxn);
        out.println("m " + producer + " " + epoch[producer] + " " + offset);
        offset++;
    }

    private boolean data(int producer, boolean transactional) throws Exception {
        int count = 1 + random.nextInt(4);
        int first = next[producer];
        short at = epoch[producer];
        Optional<ProducerStateEntry> known = states.lastEntry(producer);
        switch (random.nextInt(14)) {
            case 0 -> first = (int) Math.max(0, (long) first - 1 - random.nextInt(20));
            case 1 -> first = (int) ((first + 1L + random.nextInt(5)) % (1L << 31));
            case 2 -> {
                at++;
                first = random.nextBoolean() ? 0 : first;
            }
            case 3 -> at -= at > 0 ? 1 : 0;
            case 4 -> {
                List<BatchMetadata> kept = new ArrayList<>();
                known.ifPresent(entry -> kept.addAll(entry.batchMetadata()));
                if (!kept.isEmpty()) {
                    BatchMetadata again = kept.get(random.nextInt(kept.size()));
                    first = again.firstSeq();
                    count = again.offsetDelta() + 1;
                }
            }
            default -> { }
        }
        ByteBuffer header = ByteBuffer.allocate(61);
        DefaultRecordBatch.writeEmptyHeader(header, (byte) 2, producer, at, first, offset, offset + count - 1, 0,
            TimestampType.CREATE_TIME, 5L, transactional, false);
        header.position(0).limit(61);
        RecordBatch batch = MemoryRecords.readableRecords(header).batches().iterator().next();
        out.println("d " + producer + " " + at + " " + offset + " " + batch.lastOffset() + " " + first + " "
            + batch.lastSequence() + " " + transactional + " " + verdict(producer, known, batch));
        try {
            ProducerAppendInfo info = states.prepareUpdate(producer, AppendOrigin.REPLICATION);
            info.append(batch, Optional.empty());
            states.update(info);
        } catch (InvalidTxnStateException refused) {
            return false;
        }
        epoch[producer] = at;
        next[producer] = (int) ((batch.lastSequence() + 1L) % (1L << 31));
        offset += count;
        return true;
    }

    private String verdict(int producer, Optional<ProducerStateEntry> known, RecordBatch batch) throws Exception {
        Method find = ProducerStateEntry.class.getDeclaredMethod("findDuplicateBatch", RecordBatch.class);
        find.setAccessible(true);
        if (known.isPresent() && ((Optional<?>) find.invoke(known.get(), batch)).isPresent())
            return "duplicate";
        try {
            states.prepareUpdate(producer, AppendOrigin.CLIENT).append(batch, Optional.empty());
            return "taken";
        } catch (OutOfOrderSequenceException refused) {
            return "sequence";
        } catch (InvalidProducerEpochException refused) {
            return "epoch";
        } catch (InvalidTxnStateException refused) {
            return "transaction";
        }
    }
}
