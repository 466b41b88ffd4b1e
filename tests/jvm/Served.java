import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** What a running broker serves. */
final class Served {
    private static final int PATIENCE_SECONDS = 40;

    private Served() { }

    /** BOOTSTRAP TOPIC...: creates topics of one partition as soon as the broker answers. */
    static void create(String[] arguments) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        for (int i = 1; i < arguments.length; i++)
            topics.add(new NewTopic(arguments[i], 1, (short) 1));
        String patience = String.valueOf(PATIENCE_SECONDS * 1000);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0], "default.api.timeout.ms", patience))) {
            admin.createTopics(topics).all().get(PATIENCE_SECONDS, TimeUnit.SECONDS);
        }
    }

    /** BOOTSTRAP TOPIC ISOLATION: every record of partition 0, one line each, then where the consumer ended. */
    static void consume(String[] arguments) {
        TopicPartition partition = new TopicPartition(arguments[1], 0);
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "isolation.level", arguments[2],
            "default.api.timeout.ms", PATIENCE_SECONDS * 1000, "fetch.max.wait.ms", 20,
            "allow.auto.create.topics", "false");
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            StringBuilder lines = new StringBuilder();
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
            while (consumer.position(partition) < end && System.nanoTime() < deadline)
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200)))
                    Reading.add(lines, record);
            System.out.print(lines);
            System.out.println("end " + consumer.position(partition));
        }
    }
}
