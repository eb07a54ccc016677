import java.io.File;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ScheduledFuture;
import java.util.stream.Collectors;

import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/**
 * Opens partitions as a broker does when it starts, and prints a line about what it made of each.
 *
 * Arguments: the time of day in milliseconds, index.interval.bytes, cleanup.policy; then for each
 * partition its folder, its recovery point, its log start, and whether the last stop was clean.
 */
public final class Recover {
    private static final int EXPIRATION_MS = 86_400_000;
    private static final Object NEVER = Proxy.newProxyInstance(Recover.class.getClassLoader(),
        new Class<?>[] {ScheduledFuture.class}, (self, method, given) -> false);

    public static void main(String[] args) {
        Time time = stoppedAt(Long.parseLong(args[0]));
        Properties settings = new Properties();
        settings.setProperty("index.interval.bytes", args[1]);
        settings.setProperty("cleanup.policy", args[2]);
        LogConfig config = new LogConfig(settings);
        for (int at = 3; at < args.length; at += 4) {
            String line;
            try {
                line = open(new File(args[at]), config, time, Long.parseLong(args[at + 1]),
                    Long.parseLong(args[at + 2]), Boolean.parseBoolean(args[at + 3]));
            } catch (Throwable refused) {
                line = "refused\t" + refused.getClass().getSimpleName() + ": "
                    + String.valueOf(refused.getMessage()).replaceAll("\\s+", " ");
            }
            System.out.println(line);
        }
    }

    private static String open(
        File folder, LogConfig config, Time time, long recoveryPoint, long logStart, boolean clean
    ) throws Exception {
        UnifiedLog log = UnifiedLog.create(folder, config, logStart, recoveryPoint, idle(),
            new BrokerTopicStats(), time, 900_000,
            new ProducerStateManagerConfig(EXPIRATION_MS, false), EXPIRATION_MS,
            new LogDirFailureChannel(1), clean, Optional.empty());
        String line = String.join("\t", "opened",
            Long.toString(log.logEndOffset()),
            Long.toString(log.logStartOffset()),
            log.leaderEpochCache().epochEntries().stream()
                .map(entry -> entry.epoch() + ":" + entry.startOffset())
                .collect(Collectors.joining(",")),
            log.producerStateManager().activeProducers().entrySet().stream()
                .sorted(java.util.Map.Entry.comparingByKey())
                .map(entry -> producer(entry.getValue()))
                .collect(Collectors.joining(",")),
            log.collectAbortedTransactions(log.logStartOffset(), log.logEndOffset()).stream()
                .map(one -> one.producerId() + ":" + one.firstOffset() + ":" + one.lastOffset())
                .collect(Collectors.joining(",")),
            log.logSegments().stream()
                .map(LogSegment::baseOffset).map(String::valueOf)
                .collect(Collectors.joining(",")));
        log.close();
        return line;
    }

    private static String producer(ProducerStateEntry entry) {
        int sequence = -1;
        long offset = -1;
        for (BatchMetadata batch : entry.batchMetadata()) {
            sequence = batch.lastSeq();
            offset = batch.lastOffset();
        }
        return entry.producerId() + ":" + entry.producerEpoch() + ":" + sequence + ":" + offset
            + ":" + entry.currentTxnFirstOffset().orElse(-1);
    }

    /** Nothing runs later; what may run at once does. */
    private static Scheduler idle() {
        return (Scheduler) Proxy.newProxyInstance(Recover.class.getClassLoader(),
            new Class<?>[] {Scheduler.class}, (self, method, given) -> {
                if (method.getName().equals("scheduleOnce") && given.length == 2)
                    ((Runnable) given[1]).run();
                return method.getReturnType() == ScheduledFuture.class ? NEVER : null;
            });
    }

    private static Time stoppedAt(long now) {
        return (Time) Proxy.newProxyInstance(Recover.class.getClassLoader(),
            new Class<?>[] {Time.class}, (self, method, given) -> {
                if (method.getName().equals("milliseconds"))
                    return now;
                try {
                    return method.invoke(Time.SYSTEM, given);
                } catch (InvocationTargetException failure) {
                    throw failure.getCause();
                }
            });
    }
}
