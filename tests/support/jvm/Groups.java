import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConsumerGroupOffsetsResult;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What groups do with a running broker. BOOTSTRAP WHAT ARGUMENT...; an offset is TOPIC:PARTITION=OFFSET
 *
 * commit GROUP OFFSET...          as kafka-consumer-groups --reset-offsets does
 * transact GROUP END OFFSET...    in a transaction with END commit, abort
 * forget GROUP OFFSET...          deletes committed offsets (the number is not looked at)
 * disband GROUP                   deletes the group
 * cut OFFSET...                   deletes the records in front of it
 */
final class Groups {
    private static final int PATIENCE_SECONDS = 40;

    private Groups() { }

    static void main(String[] words) throws Exception {
        String group = words[2];
        if (words[1].equals("transact")) {
            transact(words[0], group, words[3].equals("commit"), offsets(words, 4));
            return;
        }
        String patience = String.valueOf(PATIENCE_SECONDS * 1000);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", words[0], "default.api.timeout.ms", patience))) {
            switch (words[1]) {
                case "commit" -> {
                    AlterConsumerGroupOffsetsResult done = admin.alterConsumerGroupOffsets(group, offsets(words, 3));
                    done.all().get(PATIENCE_SECONDS, TimeUnit.SECONDS);
                }
                case "forget" -> {
                    Set<TopicPartition> which = offsets(words, 3).keySet();
                    admin.deleteConsumerGroupOffsets(group, which).all().get(PATIENCE_SECONDS, TimeUnit.SECONDS);
                }
                case "disband" ->
                    admin.deleteConsumerGroups(List.of(group)).all().get(PATIENCE_SECONDS, TimeUnit.SECONDS);
                case "cut" -> {
                    Map<TopicPartition, RecordsToDelete> before = new HashMap<>();
                    offsets(words, 2).forEach((partition, offset) ->
                        before.put(partition, RecordsToDelete.beforeOffset(offset.offset())));
                    admin.deleteRecords(before).all().get(PATIENCE_SECONDS, TimeUnit.SECONDS);
                }
                default -> throw new IllegalArgumentException(words[1]);
            }
        }
    }

    private static Map<TopicPartition, OffsetAndMetadata> offsets(String[] words, int from) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        for (int i = from; i < words.length; i++) {
            String[] parts = words[i].split("[:=]");
            found.put(new TopicPartition(parts[0], Integer.parseInt(parts[1])),
                new OffsetAndMetadata(Long.parseLong(parts[2])));
        }
        return found;
    }

    @SuppressWarnings("removal") // of a producer without a consumer beside it, the group's name is all there is
    private static void transact(
        String bootstrap, String group, boolean commit, Map<TopicPartition, OffsetAndMetadata> offsets) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "transactional.id", "of-" + group,
            "max.block.ms", PATIENCE_SECONDS * 1000);
        try (KafkaProducer<byte[], byte[]> producer =
                 new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(group));
            if (commit)
                producer.commitTransaction();
            else
                producer.abortTransaction();
        }
    }
}
