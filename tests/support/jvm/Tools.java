import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The commands of kafka-tools with the jars that they came with: the other classes may be of a newer Kafka. */
final class Tools {
    private static ClassLoader loader;

    private Tools() { }

    static void load(Path folder) throws Exception {
        List<URL> jars = new ArrayList<>();
        try (DirectoryStream<Path> found = Files.newDirectoryStream(folder, "*.jar")) {
            for (Path jar : found)
                jars.add(jar.toUri().toURL());
        }
        loader = new URLClassLoader(jars.toArray(new URL[0]), ClassLoader.getPlatformClassLoader());
        Class<?> procedure = loader.loadClass("org.apache.kafka.common.utils.Exit$Procedure");
        Object leave = Proxy.newProxyInstance(loader, new Class<?>[] {procedure}, (self, method, given) -> {
            throw new Server.Left((Integer) given[0]);  // a command that called Exit
        });
        loader.loadClass("org.apache.kafka.common.utils.Exit").getMethod("setExitProcedure", procedure).invoke(null, leave);
    }

    /** `name`: of a class in org.apache.kafka.tools. */
    static void run(String name, String[] arguments) throws Exception {
        Thread.currentThread().setContextClassLoader(loader);
        try {
            Method main = loader.loadClass("org.apache.kafka.tools." + name).getMethod("main", String[].class);
            main.invoke(null, (Object) arguments);
        } catch (InvocationTargetException failure) {
            if (failure.getCause() instanceof Exception cause)
                throw cause;
            throw (Error) failure.getCause();
        } finally {
            Thread.currentThread().setContextClassLoader(Tools.class.getClassLoader());
        }
    }
}
