import java.nio.charset.StandardCharsets;
import java.util.Map;

import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;

/**
 * Sets a record's timestamp from its header "record-timestamp" (milliseconds as text), and removes the header.
 * For Spark's Kafka sink, which has no column for timestamps: .option("kafka.interceptor.classes",
 * "RecordTimestamps"). docs/howto/spark-and-kafka.md shows how it is compiled and used.
 */
public class RecordTimestamps implements ProducerInterceptor<byte[], byte[]> {
    static final String HEADER = "record-timestamp";

    @Override
    public ProducerRecord<byte[], byte[]> onSend(ProducerRecord<byte[], byte[]> record) {
        Header header = record.headers().lastHeader(HEADER);
        if (header == null)
            return record;
        Long timestamp = Long.valueOf(new String(header.value(), StandardCharsets.UTF_8));
        ProducerRecord<byte[], byte[]> stamped = new ProducerRecord<>(
            record.topic(), record.partition(), timestamp, record.key(), record.value(), record.headers());
        stamped.headers().remove(HEADER);  // only now: after an exception the producer sends the record unchanged
        return stamped;
    }

    @Override
    public void onAcknowledgement(RecordMetadata metadata, Exception exception) { }

    @Override
    public void close() { }

    @Override
    public void configure(Map<String, ?> settings) { }
}
