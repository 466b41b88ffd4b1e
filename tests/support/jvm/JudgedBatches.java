import java.io.File;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;

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
import org.apache.kafka.storage.internals.log.CompletedTxn;
import org.apache.kafka.storage.internals.log.ProducerAppendInfo;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/**
 * What ProducerStateManager and ProducerAppendInfo say to batches, as a client's.
 *
 * argument: a file with a line a batch, after "run" at each new begin; printed with the verdicts of this Kafka:
 * "d producer epoch base_offset last_offset base_sequence last_sequence transactional verdict" for data,
 * "m producer epoch offset" for an end marker. The state takes every batch, as in replication.
 */
final class JudgedBatches {
    private final ProducerStateManager states;

    private JudgedBatches() throws Exception {
        File folder = Files.createTempDirectory("judged").toFile();
        folder.deleteOnExit();
        states = new ProducerStateManager(new TopicPartition("t", 0), folder, 1000,
            new ProducerStateManagerConfig(Integer.MAX_VALUE, false), Time.SYSTEM);
    }

    static void main(String[] arguments) throws Exception {
        JudgedBatches judged = null;
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "run" -> judged = new JudgedBatches();
                case "m" -> judged.marker(Long.parseLong(words[1]), Short.parseShort(words[2]), Long.parseLong(words[3]));
                default -> line = line.substring(0, line.lastIndexOf(' ') + 1) + judged.data(words);
            }
            System.out.println(line);
        }
    }

    private void marker(long producer, short epoch, long offset) {
        RecordBatch batch = MemoryRecords.withEndTransactionMarker(offset, 5L, 0, producer, epoch,
            new EndTransactionMarker(ControlRecordType.COMMIT, 1)).batches().iterator().next();
        ProducerAppendInfo info = states.prepareUpdate(producer, AppendOrigin.REPLICATION);
        Optional<CompletedTxn> completed = info.append(batch, Optional.empty());
        states.update(info);
        completed.ifPresent(states::completeTxn);
    }

    /** The verdict. */
    private String data(String[] words) throws Exception {
        long producer = Long.parseLong(words[1]);
        ByteBuffer header = ByteBuffer.allocate(61);
        DefaultRecordBatch.writeEmptyHeader(header, (byte) 2, producer, Short.parseShort(words[2]),
            Integer.parseInt(words[5]), Long.parseLong(words[3]), Long.parseLong(words[4]), 0,
            TimestampType.CREATE_TIME, 5L, Boolean.parseBoolean(words[7]), false);
        header.position(0).limit(61);
        RecordBatch batch = MemoryRecords.readableRecords(header).batches().iterator().next();
        String verdict = verdict(producer, states.lastEntry(producer), batch);
        try {
            ProducerAppendInfo info = states.prepareUpdate(producer, AppendOrigin.REPLICATION);
            info.append(batch, Optional.empty());
            states.update(info);
        } catch (InvalidTxnStateException refused) {
            // the last batch of its run
        }
        return verdict;
    }

    private String verdict(long producer, Optional<ProducerStateEntry> known, RecordBatch batch) throws Exception {
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
