import static java.util.stream.Collectors.joining;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;

import org.apache.kafka.metadata.properties.MetaProperties;
import org.apache.kafka.metadata.properties.PropertiesUtils;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.checkpoint.PartitionMetadata;
import org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;

/** What a broker's parsers read from text files. Argument: a folder of files N.epochs, N.offsets, N.topic, N.meta. */
final class SideFiles {
    interface Parser {
        List<?> values(File file) throws Exception;
    }

    private static final LogDirFailureChannel FAILURES = new LogDirFailureChannel(1000);
    private static final Map<String, Parser> PARSERS = Map.of(
        "epochs", file -> new LeaderEpochCheckpointFile(file, FAILURES).read().stream()
            .map(one -> one.epoch() + " " + one.startOffset()).toList(),
        "offsets", file -> new OffsetCheckpointFile(file, FAILURES).read().entrySet().stream()
            .map(one -> one.getKey().topic() + " " + one.getKey().partition() + " " + one.getValue()).sorted().toList(),
        "topic", file -> topic(new PartitionMetadataFile(file, FAILURES).read()),
        "meta", file -> meta(PropertiesUtils.readPropertiesFile(file.getPath())));

    private static List<?> topic(PartitionMetadata of) {
        return List.of(of.version(), of.topicId());
    }

    /** Also what Kafka does not define. */
    private static List<?> meta(Properties all) {
        all.putAll(new MetaProperties.Builder(all).build().toProperties());
        return new TreeMap<>(all).entrySet().stream().map(one -> one.getKey() + "=" + one.getValue()).toList();
    }

    /** A line for each file in the order of their numbers: its values, separated by tabs, as hex; or "refused". */
    static void main(String[] arguments) {
        File[] files = new File(arguments[0]).listFiles();
        Arrays.sort(files);
        for (File file : files) {
            String kind = file.getName().substring(file.getName().indexOf('.') + 1);
            try {
                String values = PARSERS.get(kind).values(file).stream().map(String::valueOf).collect(joining("\t"));
                System.out.println(HexFormat.of().formatHex(values.getBytes(StandardCharsets.UTF_8)));
            } catch (Exception refused) {
                System.out.println("refused");
            }
        }
    }
}
