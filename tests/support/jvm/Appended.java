import java.io.File;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** A log that Kafka itself writes, as a follower. */
final class Appended {
    private Appended() { }

    /**
     * FILE FOLDER START SETTING=VALUE...: each batch of FILE in an append of its own to the log in FOLDER, made at
     * offset START where there is none, then closed. Prints its next offset and the base offsets of its segments; where
     * a batch is refused its base offset and the exception, and the log is closed there.
     */
    static void follow(String[] arguments) throws Exception {
        Map<String, String> settings = new HashMap<>();
        settings.put("retention.ms", "-1");
        for (int i = 3; i < arguments.length; i++)
            settings.put(arguments[i].split("=")[0], arguments[i].split("=")[1]);
        byte[] data = Files.readAllBytes(new File(arguments[0]).toPath());
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        try {
            UnifiedLog log = UnifiedLog.create(new File(arguments[1]), new LogConfig(settings),
                Long.parseLong(arguments[2]), 0L, scheduler, new BrokerTopicStats(), Time.SYSTEM, 900_000,
                new ProducerStateManagerConfig(Integer.MAX_VALUE, false), 600_000, new LogDirFailureChannel(1), true,
                Optional.empty());
            StringBuilder refused = new StringBuilder();
            for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
                ByteBuffer one = ByteBuffer.allocate(batch.sizeInBytes());
                batch.writeTo(one);
                one.flip();
                try {
                    log.appendAsFollower(MemoryRecords.readableRecords(one), Integer.MAX_VALUE);
                } catch (RuntimeException failure) {
                    refused.append(batch.baseOffset()).append(' ').append(failure.getClass().getSimpleName());
                    break;
                }
            }
            StringBuilder segments = new StringBuilder();
            log.logSegments().forEach(segment -> segments.append(' ').append(segment.baseOffset()));
            System.out.println(log.logEndOffset() + segments.toString());
            System.out.println(refused);
            log.activeSegment().onBecomeInactiveSegment();  // as LogManager does since 4.4, and close before
            log.close();
        } finally {
            scheduler.shutdown();
        }
    }
}
