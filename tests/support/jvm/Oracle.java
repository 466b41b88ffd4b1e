import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Map;

/** Apache Kafka's own classes as a server. Argument: the folder with the jars of kafka-tools. */
public final class Oracle {
    static final Map<String, Server.Verb> VERBS = Map.ofEntries(
        Map.entry("dump", arguments -> Tools.run("DumpLogSegments", arguments)),
        Map.entry("read", Reading::main),
        Map.entry("recover", Segments::recover),
        Map.entry("load", Segments::load),
        Map.entry("follow", Segments::follow),
        Map.entry("transactions", Segments::transactions),
        Map.entry("judge", JudgedBatches::main),
        Map.entry("validate", Validator::main),
        Map.entry("analyze", Validator::analyze),
        Map.entry("create", Served::create),
        Map.entry("consume", Served::consume),
        Map.entry("consume all", Served::consumeAll),
        Map.entry("in sync", Served::inSync),
        Map.entry("transact", Served::transact),
        Map.entry("abort open", Served::abortOpen),
        Map.entry("alter", Served::alter),
        Map.entry("delete topics", Served::delete),
        Map.entry("move", Served::move),
        Map.entry("traffic", Served::traffic),
        Map.entry("produce", Served::produce),
        Map.entry("group", Groups::main),
        Map.entry("text", Oracle::text),
        Map.entry("build", Builder::script),
        Map.entry("encoded", Encoded::main),
        Map.entry("estimates", Builder::estimates),
        Map.entry("pack", Builder::pack),
        Map.entry("unpack", Builder::unpack),
        Map.entry("stamp", Builder::stamp),
        Map.entry("filter", Compaction::filter),
        Map.entry("clean", Compaction::clean),
        Map.entry("side files", SideFiles::main)
    );

    /** new String(bytes, UTF_8) of each argument, bytes as hex. */
    static void text(String[] arguments) {
        for (String hex : arguments)
            System.out.println(new String(Reading.bytes(hex), StandardCharsets.UTF_8));
    }

    public static void main(String[] arguments) throws Exception {
        Tools.load(Path.of(arguments[0]));
        Server.serve(VERBS);
    }
}
