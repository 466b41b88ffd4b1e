import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** What a running broker serves. */
final class Served {
    private static final int PATIENCE_SECONDS = 40;

    private Served() { }

    /**
     * BOOTSTRAP TOPIC[:SETTING=VALUE]...: creates topics of one partition as soon as the broker answers.
     */
    static void create(String[] arguments) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        for (int i = 1; i < arguments.length; i++) {
            String[] words = arguments[i].split(":");
            Map<String, String> settings = new HashMap<>();
            for (int j = 1; j < words.length; j++)
                settings.put(words[j].split("=")[0], words[j].split("=")[1]);
            topics.add(new NewTopic(words[0], 1, (short) 1).configs(settings));
        }
        String patience = String.valueOf(PATIENCE_SECONDS * 1000);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0], "default.api.timeout.ms", patience))) {
            admin.createTopics(topics).all().get(PATIENCE_SECONDS, TimeUnit.SECONDS);
        }
    }

    /**
     * BOOTSTRAP TOPIC COUNT: three records of an idempotent producer COUNT times, then COUNT transactions of three
     * records each, of which every other one is aborted. Prints the offset of each record.
     */
    static void produce(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[2]);
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", arguments[0], "acks", "all",
            "enable.idempotence", "true", "max.block.ms", PATIENCE_SECONDS * 1000));
        for (boolean transactional : new boolean[] {false, true}) {
            if (transactional)
                settings.put("transactional.id", "back-into-" + arguments[1]);
            try (KafkaProducer<byte[], byte[]> producer =
                     new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
                if (transactional)
                    producer.initTransactions();
                for (int i = 0; i < count; i++) {
                    if (transactional)
                        producer.beginTransaction();
                    for (int j = 0; j < 3; j++) {
                        byte[] value = ("more " + i + " " + j).getBytes(StandardCharsets.UTF_8);
                        Future<RecordMetadata> sent = producer.send(new ProducerRecord<>(arguments[1], value, value));
                        System.out.println(sent.get(PATIENCE_SECONDS, TimeUnit.SECONDS).offset());
                    }
                    if (transactional && i % 2 == 0)
                        producer.commitTransaction();
                    else if (transactional)
                        producer.abortTransaction();
                }
            }
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
