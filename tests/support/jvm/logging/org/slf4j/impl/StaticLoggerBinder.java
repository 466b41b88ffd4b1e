package org.slf4j.impl;

import java.lang.reflect.Proxy;
import java.util.Arrays;

import org.slf4j.ILoggerFactory;
import org.slf4j.Logger;
import org.slf4j.helpers.FormattingTuple;
import org.slf4j.helpers.MessageFormatter;
import org.slf4j.spi.LoggerFactoryBinder;

/** What SLF4J 1.7 looks for: information, warnings and errors go to standard error, one line each, and a stack trace. */
public final class StaticLoggerBinder implements LoggerFactoryBinder {
    public static final String REQUESTED_API_VERSION = "1.6";
    private static final StaticLoggerBinder SINGLETON = new StaticLoggerBinder();

    private StaticLoggerBinder() { }

    public static StaticLoggerBinder getSingleton() {
        return SINGLETON;
    }

    @Override
    public ILoggerFactory getLoggerFactory() {
        return name -> (Logger) Proxy.newProxyInstance(Logger.class.getClassLoader(), new Class<?>[] {Logger.class},
            (proxy, method, arguments) -> {
                boolean told = Arrays.asList("info", "warn", "error").contains(method.getName());
                if (told && arguments[0] instanceof String)
                    tell(method.getName(), arguments);
                if (method.getName().equals("getName"))
                    return name;
                return method.getReturnType() != boolean.class ? null
                    : !method.getName().matches("is(Debug|Trace)Enabled");
            });
    }

    private static void tell(String level, Object[] arguments) {
        Object[] rest = Arrays.copyOfRange(arguments, 1, arguments.length);
        if (rest.length == 1 && rest[0] instanceof Object[] several)
            rest = several;
        FormattingTuple line = MessageFormatter.arrayFormat((String) arguments[0], rest);
        synchronized (System.err) {
            System.err.println(level.toUpperCase() + " " + line.getMessage());
            if (line.getThrowable() != null)
                line.getThrowable().printStackTrace();
        }
    }

    @Override
    public String getLoggerFactoryClassStr() {
        return StaticLoggerBinder.class.getName();
    }
}
