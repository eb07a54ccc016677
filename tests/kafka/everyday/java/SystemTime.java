package org.apache.kafka.common.utils;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.Supplier;

import org.apache.kafka.common.errors.TimeoutException;

/**
 * In place of Kafka's class of this name: the time of day is off by as many ms as the file says that
 * the variable CLOCK names. What counts intervals goes on, as under NTP.
 */
public class SystemTime implements Time {
    private static final SystemTime ONLY = new SystemTime();
    private static final Path CLOCK = Path.of(System.getenv("CLOCK"));
    private static volatile long off;

    static {
        Thread reader = new Thread(() -> {
            while (true) {
                try {
                    off = Long.parseLong(Files.readString(CLOCK).trim());
                    Thread.sleep(50);
                } catch (java.io.IOException | NumberFormatException | InterruptedException e) {
                    // it is being written: next time
                }
            }
        });
        reader.setDaemon(true);
        reader.start();
    }

    public static SystemTime getSystemTime() {
        return ONLY;
    }

    @Override
    public long milliseconds() {
        return System.currentTimeMillis() + off;
    }

    @Override
    public long nanoseconds() {
        return System.nanoTime();
    }

    @Override
    public void sleep(long ms) {
        Utils.sleep(ms);
    }

    @Override
    public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs)
            throws InterruptedException {
        synchronized (object) {
            while (true) {
                if (condition.get())
                    return;
                long now = milliseconds();
                if (now >= deadlineMs)
                    throw new TimeoutException("Condition not satisfied before deadline");
                object.wait(deadlineMs - now);
            }
        }
    }
}
