import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Map;

/**
 * Apache Kafka's own classes as a server on standard input and output: one JVM for thousands of questions.
 *
 * argument: the folder with the jars of kafka-tools
 * question: int n, then n strings (int length, UTF-8): the verb and its arguments
 * answer:   int status (0, or 1 after an exception), then standard output and standard error (int length, bytes)
 */
public final class Oracle {
    interface Verb {
        void run(String[] arguments) throws Exception;
    }

    static final Map<String, Verb> VERBS = Map.ofEntries(
        Map.entry("dump", arguments -> Tools.run("DumpLogSegments", arguments)),
        Map.entry("read", Reading::main),
        Map.entry("recover", Segments::recover),
        Map.entry("append", Segments::append),
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
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out));
        while (true) {
            int count;
            try {
                count = in.readInt();
            } catch (EOFException end) {
                return;
            }
            String[] words = new String[count];
            for (int i = 0; i < count; i++)
                words[i] = new String(in.readNBytes(in.readInt()), StandardCharsets.UTF_8);
            answer(words, out);
            out.flush();
        }
    }

    private static void answer(String[] words, DataOutputStream out) throws IOException {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        ByteArrayOutputStream complained = new ByteArrayOutputStream();
        System.setOut(new PrintStream(said, false, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(complained, false, StandardCharsets.UTF_8));
        int status = 0;
        String[] arguments = new String[words.length - 1];
        System.arraycopy(words, 1, arguments, 0, arguments.length);
        try {
            VERBS.get(words[0]).run(arguments);
        } catch (Tools.Left left) {
            status = left.status;
        } catch (Throwable failure) {
            status = 1;
            System.err.println("Exception in thread \"main\" " + failure);
        }
        System.out.flush();
        System.err.flush();
        out.writeInt(status);
        for (ByteArrayOutputStream one : new ByteArrayOutputStream[] {said, complained}) {
            out.writeInt(one.size());
            one.writeTo(out);
        }
    }
}
