import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;

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
    private Groups() { }

    static void main(String[] words) throws Exception {
        String group = words[2];
        if (words[1].equals("transact")) {
            transact(words[0], group, words[3].equals("commit"), offsets(words, 4));
            return;
        }
        try (Admin admin = Served.admin(words[0])) {
            switch (words[1]) {
                case "commit" -> admin.alterConsumerGroupOffsets(group, offsets(words, 3)).all().get();
                case "forget" -> admin.deleteConsumerGroupOffsets(group, offsets(words, 3).keySet()).all().get();
                case "disband" -> admin.deleteConsumerGroups(List.of(group)).all().get();
                case "cut" -> {
                    Map<TopicPartition, RecordsToDelete> before = new HashMap<>();
                    offsets(words, 2).forEach((partition, offset) ->
                        before.put(partition, RecordsToDelete.beforeOffset(offset.offset())));
                    admin.deleteRecords(before).all().get();
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
        try (KafkaProducer<byte[], byte[]> producer = Served.producer(bootstrap, "of-" + group)) {
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(group));
            if (commit)
                producer.commitTransaction();
            else
                producer.abortTransaction();
        }
    }
}
