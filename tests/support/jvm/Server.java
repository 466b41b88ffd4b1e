import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;

/**
 * A server on standard input and output: one JVM for thousands of questions.
 *
 * question: int n, then n strings (int length, UTF-8): the verb and its arguments
 * answer:   int status (0, or 1 after an exception), then standard output and standard error (int length, bytes)
 */
final class Server {
    interface Verb {
        void run(String[] arguments) throws Exception;
    }

    /** A verb that ends with this status. */
    static final class Left extends RuntimeException {
        final int status;

        Left(int status) {
            this.status = status;
        }
    }

    private Server() { }

    static void serve(Map<String, Verb> verbs) throws IOException {
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
            answer(verbs.get(words[0]), Arrays.copyOfRange(words, 1, count), out);
            out.flush();
        }
    }

    private static void answer(Verb verb, String[] arguments, DataOutputStream out) throws IOException {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        ByteArrayOutputStream complained = new ByteArrayOutputStream();
        System.setOut(new PrintStream(said, false, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(complained, false, StandardCharsets.UTF_8));
        int status = 0;
        try {
            verb.run(arguments);
        } catch (Left left) {
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
