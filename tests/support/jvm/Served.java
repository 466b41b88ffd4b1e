import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;

import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** What a running broker serves. */
final class Served {
    private static final int PATIENCE_SECONDS = 120;

    private Served() { }

    static Admin admin(String bootstrap) {
        return Admin.create(Map.of("bootstrap.servers", bootstrap, "default.api.timeout.ms", PATIENCE_SECONDS * 1000));
    }

    /** id: the transactional id; null: it is idempotent, but makes no transactions. */
    static KafkaProducer<byte[], byte[]> producer(String bootstrap, String id) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "linger.ms", 0,
            "max.block.ms", PATIENCE_SECONDS * 1000));
        if (id != null)
            settings.put("transactional.id", id);
        KafkaProducer<byte[], byte[]> producer = producer(settings);
        if (id != null)
            producer.initTransactions();
        return producer;
    }

    private static KafkaProducer<byte[], byte[]> producer(Map<String, Object> settings) {
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /**
     * BOOTSTRAP TOPIC[:SETTING=VALUE]...: creates topics as soon as the broker answers, of one partition and replica
     * without the settings `partitions` and `replicas`.
     */
    static void create(String[] arguments) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        for (int i = 1; i < arguments.length; i++) {
            String[] words = arguments[i].split(":");
            Map<String, String> settings = new HashMap<>();
            for (int j = 1; j < words.length; j++)
                settings.put(words[j].split("=")[0], words[j].split("=")[1]);
            String partitions = settings.remove("partitions");
            String replicas = settings.remove("replicas");
            topics.add(new NewTopic(words[0], partitions == null ? 1 : Integer.parseInt(partitions),
                replicas == null ? 1 : Short.parseShort(replicas)).configs(settings));
        }
        try (Admin admin = admin(arguments[0])) {
            while (topics.stream().anyMatch(topic -> topic.replicationFactor() > 1)
                   && admin.describeCluster().nodes().get().size() < 2)
                Thread.sleep(100);
            admin.createTopics(topics).all().get();
        }
    }

    /**
     * BOOTSTRAP TOPIC COUNT: three records of an idempotent producer COUNT times, then COUNT transactions of three
     * records each, of which every other one is aborted. Prints the offset of each record.
     */
    static void produce(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[2]);
        for (boolean transactional : new boolean[] {false, true}) {
            String id = transactional ? "back-into-" + arguments[1] : null;
            try (KafkaProducer<byte[], byte[]> producer = producer(arguments[0], id)) {
                for (int i = 0; i < count; i++) {
                    if (transactional)
                        producer.beginTransaction();
                    for (int j = 0; j < 3; j++) {
                        byte[] value = ("more " + i + " " + j).getBytes(StandardCharsets.UTF_8);
                        Future<RecordMetadata> sent = producer.send(new ProducerRecord<>(arguments[1], value, value));
                        System.out.println(sent.get().offset());
                    }
                    if (transactional && i % 2 == 0)
                        producer.commitTransaction();
                    else if (transactional)
                        producer.abortTransaction();
                }
            }
        }
    }

    /** BOOTSTRAP TOPIC COUNT: waits until so many replicas of partition 0 are in sync. */
    static void inSync(String[] arguments) throws Exception {
        try (Admin admin = admin(arguments[0])) {
            while (admin.describeTopics(List.of(arguments[1])).allTopicNames().get()
                   .get(arguments[1]).partitions().get(0).isr().size() < Integer.parseInt(arguments[2]))
                Thread.sleep(100);
        }
    }

    /** BOOTSTRAP TOPIC ISOLATION: every record of partition 0, one line each, then where the consumer ended. */
    static void consume(String[] arguments) {
        consume(arguments, List.of(new TopicPartition(arguments[1], 0)));
    }

    /** BOOTSTRAP TOPIC ISOLATION PARTITIONS: the same for each of its partitions, one after the other. */
    static void consumeAll(String[] arguments) {
        consume(arguments, partitions(arguments[1], arguments[3]));
    }

    private static List<TopicPartition> partitions(String topic, String count) {
        return IntStream.range(0, Integer.parseInt(count)).mapToObj(one -> new TopicPartition(topic, one)).toList();
    }

    private static void consume(String[] arguments, List<TopicPartition> partitions) {
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "isolation.level", arguments[2],
            "default.api.timeout.ms", PATIENCE_SECONDS * 1000, "fetch.max.wait.ms", 20,
            "allow.auto.create.topics", "false");
        try (KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            Map<TopicPartition, StringBuilder> lines = new HashMap<>();
            partitions.forEach(one -> lines.put(one, new StringBuilder()));
            Set<TopicPartition> waiting = new HashSet<>(partitions);
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
            while (true) {
                waiting.removeIf(one -> consumer.position(one) >= ends.get(one));
                if (waiting.isEmpty() || System.nanoTime() > deadline)
                    break;
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200)))
                    Reading.add(lines.get(new TopicPartition(record.topic(), record.partition())), record);
            }
            for (TopicPartition one : partitions) {
                System.out.print(lines.get(one));
                System.out.println("end " + consumer.position(one));
            }
        }
    }

    /**
     * BOOTSTRAP TOPIC PARTITIONS SEED STEPS ID...: interleaved transactions of these transactional ids and records of an
     * idempotent producer without one, each value to all partitions. In the end no transaction is open. Prints "1 VALUE"
     * for what is visible in the end, "0 VALUE" for what was aborted, in the order of the log.
     */
    static void transact(String[] arguments) throws Exception {
        List<TopicPartition> partitions = partitions(arguments[1], arguments[2]);
        Random random = new Random(Long.parseLong(arguments[3]));
        List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
        List<List<String>> open = new ArrayList<>();
        Map<String, Boolean> values = new LinkedHashMap<>();
        for (int i = 4; i < arguments.length; i++) {  // the first one is the producer without an id
            producers.add(producer(arguments[0], i > 4 ? arguments[i] : null));
            open.add(null);
        }
        int steps = Integer.parseInt(arguments[4]);
        for (int step = 0; step < steps || open.stream().anyMatch(Objects::nonNull); step++) {
            int who = random.nextInt(producers.size());
            KafkaProducer<byte[], byte[]> producer = producers.get(who);
            if (open.get(who) != null && (step >= steps || random.nextInt(3) == 0)) {
                boolean commit = random.nextBoolean();
                if (commit)
                    producer.commitTransaction();
                else
                    producer.abortTransaction();
                open.get(who).forEach(value -> values.put(value, commit));
                open.set(who, null);
            } else if (step < steps) {
                if (who > 0 && open.get(who) == null) {
                    producer.beginTransaction();
                    open.set(who, new ArrayList<>());
                }
                String value = arguments[3] + "-" + step;
                values.put(value, true);
                if (who > 0)
                    open.get(who).add(value);
                send(producer, partitions, "k" + step % 7, value);
            }
        }
        producers.forEach(KafkaProducer::close);
        values.forEach((value, visible) -> System.out.println((visible ? "1 " : "0 ") + value));
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, List<TopicPartition> partitions, String key,
                             String value) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (TopicPartition one : partitions)
            sent.add(producer.send(new ProducerRecord<>(one.topic(), one.partition(),
                key.getBytes(StandardCharsets.UTF_8), value.getBytes(StandardCharsets.UTF_8))));
        for (Future<RecordMetadata> one : sent)
            one.get();
    }

    /**
     * BOOTSTRAP TOPIC PARTITIONS: aborts all open transactions, as kafka-transactions.sh does. Prints partition, producer
     * id and first offset of each.
     */
    static void abortOpen(String[] arguments) throws Exception {
        try (Admin admin = admin(arguments[0])) {
            List<TopicPartition> partitions = partitions(arguments[1], arguments[2]);
            var described = admin.describeProducers(partitions).all().get();
            for (TopicPartition one : partitions)
                for (ProducerState state : described.get(one).activeProducers())
                    if (state.currentTransactionStartOffset().isPresent()) {
                        admin.abortTransaction(new AbortTransactionSpec(one, state.producerId(),
                            (short) state.producerEpoch(), Math.max(state.coordinatorEpoch().orElse(0), 0)))
                            .all().get();
                        System.out.println(one.partition() + " " + state.producerId() + " "
                            + state.currentTransactionStartOffset().getAsLong());
                    }
        }
    }

    /** BOOTSTRAP TOPIC SETTING=VALUE...: changes settings of a topic. */
    static void alter(String[] arguments) throws Exception {
        try (Admin admin = admin(arguments[0])) {
            List<AlterConfigOp> changes = new ArrayList<>();
            for (int i = 2; i < arguments.length; i++) {
                String[] words = arguments[i].split("=");
                changes.add(new AlterConfigOp(new ConfigEntry(words[0], words[1]), AlterConfigOp.OpType.SET));
            }
            admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.TOPIC, arguments[1]), changes))
                .all().get();
        }
    }

    /** BOOTSTRAP TOPIC...: deletes topics. */
    static void delete(String[] arguments) throws Exception {
        try (Admin admin = admin(arguments[0])) {
            admin.deleteTopics(List.of(arguments).subList(1, arguments.length)).all().get();
        }
    }

    /** BOOTSTRAP BROKER FOLDER TOPIC...: moves partition 0 of the topics to another data folder of a broker. */
    static void move(String[] arguments) throws Exception {
        try (Admin admin = admin(arguments[0])) {
            Map<TopicPartitionReplica, String> moves = new HashMap<>();
            for (int i = 3; i < arguments.length; i++)
                moves.put(new TopicPartitionReplica(arguments[i], 0, Integer.parseInt(arguments[1])), arguments[2]);
            admin.alterReplicaLogDirs(moves).all().get();
        }
    }

    /**
     * BOOTSTRAP STARTED MILLISECONDS SEED ACKS TOPIC...: makes the file STARTED as soon as the brokers answer, then
     * writes to partitions 0 and 1 of the topics, for that time or until twenty records were acknowledged: plain records
     * and, with acks=all, transactions that commit and abort, of which the last stay open; deletes the first half of the
     * records of the topics whose name has "deleted" in it, and commits offsets of a group. Brokers may fail meanwhile.
     * Prints how many records were acknowledged.
     */
    static void traffic(String[] arguments) throws Exception {
        Random random = new Random(Long.parseLong(arguments[3]));
        boolean all = arguments[4].equals("all");
        List<String> topics = List.of(arguments).subList(5, arguments.length);
        AtomicInteger written = new AtomicInteger();
        List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", arguments[0], "acks", arguments[4],
            "max.block.ms", 5000, "linger.ms", 2, "enable.idempotence", false, "request.timeout.ms", 2000,
            "delivery.timeout.ms", 5000, "buffer.memory", 4_000_000L));
        producers.add(producer(settings));
        settings.put("enable.idempotence", true);
        for (int i = 0; all && i < 3; i++) {
            settings.put("transactional.id", "traffic-" + i);
            producers.add(producer(settings));
        }
        boolean[] open = new boolean[producers.size()];
        Map<String, Object> consuming = Map.of("bootstrap.servers", arguments[0], "group.id", "g",
            "enable.auto.commit", false, "default.api.timeout.ms", 5000);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0], "default.api.timeout.ms", "5000",
                 "request.timeout.ms", "2000"));
             KafkaConsumer<byte[], byte[]> consumer =
                 new KafkaConsumer<>(consuming, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            for (String topic : topics)
                patiently(() -> producers.get(0).partitionsFor(topic));
            for (KafkaProducer<byte[], byte[]> producer : producers.subList(1, producers.size()))
                patiently(producer::initTransactions);
            Files.createFile(Path.of(arguments[1]));
            long begin = System.currentTimeMillis(), deadline = begin + Long.parseLong(arguments[2]);
            long last = Math.max(deadline, begin + 20_000);  // where hardly anything is acknowledged in that time
            for (int step = 0; ; step++) {
                long now = System.currentTimeMillis();
                if (now >= last || (now >= deadline && written.get() >= 20))
                    break;
                int who = random.nextInt(producers.size());
                KafkaProducer<byte[], byte[]> producer = producers.get(who);
                if (who > 0 && !open[who])
                    producer.beginTransaction();
                open[who] = who > 0;
                for (int i = random.nextInt(20); i >= 0; i--) {
                    TopicPartition to = new TopicPartition(topics.get(random.nextInt(topics.size())), random.nextInt(2));
                    byte[] key = ("key " + random.nextInt(60)).getBytes(StandardCharsets.UTF_8);
                    byte[] value = random.nextInt(8) == 0 ? null : new byte[random.nextInt(random.nextInt(1200) + 1)];
                    if (value != null)
                        random.nextBytes(value);
                    long time = System.currentTimeMillis() - random.nextInt(3000);
                    producer.send(new ProducerRecord<>(to.topic(), to.partition(), time, key, value), (at, failure) -> {
                        if (failure == null)
                            written.incrementAndGet();
                    });
                }
                if (who > 0 && random.nextInt(4) == 0) {
                    if (random.nextBoolean())
                        producer.commitTransaction();
                    else
                        producer.abortTransaction();
                    open[who] = false;
                }
                if (all && step % 100 == 99)
                    for (String topic : topics)
                        if (topic.contains("deleted"))
                            halve(admin, consumer, new TopicPartition(topic, random.nextInt(2)));
                Thread.sleep(1);
            }
        } catch (RuntimeException | ExecutionException | TimeoutException failure) {
            System.err.println(failure);
        }
        producers.forEach(producer -> producer.close(Duration.ZERO));
        System.out.println(written);
    }

    /** Until the brokers have started. */
    private static void patiently(Runnable call) {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
        while (true) {
            try {
                call.run();
                return;
            } catch (RetriableException failure) {
                if (System.nanoTime() > deadline)
                    throw failure;
            }
        }
    }

    private static void halve(Admin admin, KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition)
            throws ExecutionException, InterruptedException, TimeoutException {
        var at = admin.listOffsets(Map.of(partition, OffsetSpec.latest())).all().get(5, TimeUnit.SECONDS);
        long end = at.get(partition).offset();
        admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(end / 2))).all().get(5, TimeUnit.SECONDS);
        consumer.assign(List.of(partition));
        consumer.commitSync(Map.of(partition, new OffsetAndMetadata(end)));
    }
}
