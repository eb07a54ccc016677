import java.io.File;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorExecutor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorLoaderImpl;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetrics;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetricsShard;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRuntimeMetrics;
import org.apache.kafka.coordinator.common.runtime.CoordinatorShard;
import org.apache.kafka.coordinator.common.runtime.CoordinatorShardBuilder;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimer;
import org.apache.kafka.coordinator.common.runtime.MultiThreadedEventProcessor;
import org.apache.kafka.coordinator.common.runtime.PartitionWriter;
import org.apache.kafka.coordinator.common.runtime.Serializer;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.server.util.timer.SystemTimer;
import org.apache.kafka.server.util.timer.SystemTimerReaper;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.timeline.TimelineInteger;

/**
 * Loads a coordinator from a log of two records, the second above the high watermark, which
 * advances over it at a given moment, and prints what readers see and whether a request is answered.
 *
 * Arguments: an empty folder named as a partition; "during" the load, behind its last record, or
 * "after" it. Prints the high watermark, the value that a read sees, and what became of a request
 * that changes nothing; then both again when another record has been written.
 */
public final class LoadBehindAdvance {
    private static final TopicPartition PARTITION = new TopicPartition("__consumer_offsets", 0);
    private static final Duration TIME_OUT = Duration.ofSeconds(5);

    private final List<PartitionWriter.Listener> listeners = new CopyOnWriteArrayList<>();
    private final UnifiedLog log;
    private final LogConfig config = new LogConfig(new Properties());

    private LoadBehindAdvance(File folder) throws Exception {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        log = UnifiedLog.create(folder, config, 0, 0, scheduler, new BrokerTopicStats(), Time.SYSTEM,
            900_000, new ProducerStateManagerConfig(86_400_000, false), 86_400_000,
            new LogDirFailureChannel(1), true, Optional.empty());
    }

    public static void main(String[] args) throws Exception {
        LoadBehindAdvance played = new LoadBehindAdvance(new File(args[0]));
        played.append(1);
        played.advance();
        played.append(2);
        played.play(args[1].equals("during"));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private void play(boolean during) throws Exception {
        CoordinatorRuntime<Counter, Integer> runtime = runtime(during);
        runtime.scheduleLoadOperation(PARTITION, 1);
        while (!runtime.activeCoordinators().contains(PARTITION))
            Thread.sleep(10);
        if (!during)
            advance();
        tell(runtime);
        runtime.scheduleWriteOperation("write", PARTITION,
            counter -> new CoordinatorResult<>(List.of(3), "written"));
        while (log.logEndOffset() < 3)
            Thread.sleep(10);
        advance();
        tell(runtime);
    }

    /** What is committed, what a read sees, and whether a request without records is answered. */
    private void tell(CoordinatorRuntime<Counter, Integer> runtime) throws Exception {
        String answer;
        try {
            answer = runtime.scheduleWriteOperation("nothing to write", PARTITION,
                counter -> new CoordinatorResult<String, Integer>(List.of(), "answered")).get();
        } catch (ExecutionException failed) {
            answer = failed.getCause().getClass().getSimpleName();
        }
        int seen = runtime.scheduleReadOperation("read", PARTITION,
            (counter, offset) -> counter.value.get(offset)).get();
        System.out.println(log.highWatermark() + "\t" + seen + "\t" + answer);
    }

    private void append(int value) throws Exception {
        log.appendAsLeader(MemoryRecords.withRecords(Compression.NONE,
            new SimpleRecord(bytes(0), bytes(value))), 0);
    }

    /** The followers have all records: the listeners are told as Partition tells them. */
    private void advance() throws Exception {
        log.updateHighWatermark(log.logEndOffset());
        for (PartitionWriter.Listener one : listeners)
            one.onHighWatermarkUpdated(PARTITION, log.highWatermark());
    }

    private CoordinatorRuntime<Counter, Integer> runtime(boolean during) {
        LogContext context = new LogContext();
        CoordinatorRuntimeMetrics metrics = nothing(CoordinatorRuntimeMetrics.class);
        return new CoordinatorRuntime.Builder<Counter, Integer>()
            .withLogContext(context)
            .withTime(Time.SYSTEM)
            .withTimer(new SystemTimerReaper("reaper", new SystemTimer("timer")))
            .withEventProcessor(
                new MultiThreadedEventProcessor(context, "coordinator-", 1, Time.SYSTEM, metrics))
            .withPartitionWriter(new Writer())
            .withLoader(loader(during))
            .withCoordinatorShardBuilderSupplier(Counter.Builder::new)
            .withWriteTimeout(TIME_OUT)
            .withCoordinatorRuntimeMetrics(metrics)
            .withCoordinatorMetrics(new NoMetrics())
            .withSerializer(new Numbers())
            .withCompression(Compression.NONE)
            .withAppendLingerMs(OptionalInt.of(0))
            .withExecutorService(Executors.newSingleThreadExecutor())
            .withCachedBufferMaxBytesSupplier(() -> 1 << 20)
            .build();
    }

    /** The loader asks for the log's end before it reads, and again behind the last record. */
    private CoordinatorLoaderImpl<Integer> loader(boolean during) {
        AtomicInteger asked = new AtomicInteger();
        return new CoordinatorLoaderImpl<>(Time.SYSTEM, partition -> Optional.of(log), partition -> {
            if (asked.incrementAndGet() == 2 && during)
                try {
                    advance();
                } catch (Exception failed) {
                    throw new IllegalStateException(failed);
                }
            return Optional.of(log.logEndOffset());
        }, (key, value) -> value.getInt(value.position()), 1 << 20,
            CoordinatorLoaderImpl.DEFAULT_COMMIT_INTERVAL_OFFSETS);
    }

    private static byte[] bytes(int value) {
        return ByteBuffer.allocate(4).putInt(value).array();
    }

    @SuppressWarnings("unchecked")
    private static <T> T nothing(Class<T> type) {
        return (T) Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type},
            (self, method, given) -> null);
    }

    private final class Writer implements PartitionWriter {
        @Override
        public void registerListener(TopicPartition partition, Listener listener) {
            listeners.add(listener);
        }

        @Override
        public void deregisterListener(TopicPartition partition, Listener listener) {
            listeners.remove(listener);
        }

        @Override
        public LogConfig config(TopicPartition partition) {
            return config;
        }

        @Override
        public long append(TopicPartition partition, VerificationGuard guard, MemoryRecords records,
                short transactionVersion) {
            try {
                return log.appendAsLeader(records, 0).lastOffset() + 1;
            } catch (java.io.IOException failed) {
                throw new java.io.UncheckedIOException(failed);
            }
        }

        @Override
        public CompletableFuture<VerificationGuard> maybeStartTransactionVerification(
                TopicPartition partition, String transactionalId, long producerId,
                short producerEpoch, int apiVersion) {
            return CompletableFuture.completedFuture(VerificationGuard.SENTINEL);
        }

        @Override
        public CompletableFuture<Void> deleteRecords(TopicPartition partition, long before) {
            return CompletableFuture.completedFuture(null);
        }
    }

    /** The smallest coordinator: its state is the value of the last record. */
    private static final class Counter implements CoordinatorShard<Integer> {
        private final TimelineInteger value;

        private Counter(SnapshotRegistry registry) {
            value = new TimelineInteger(registry);
        }

        @Override
        public void replay(long offset, long producerId, short producerEpoch, Integer record) {
            value.set(record);
        }

        private static final class Builder implements CoordinatorShardBuilder<Counter, Integer> {
            private SnapshotRegistry registry;

            @Override
            public Builder withSnapshotRegistry(SnapshotRegistry given) {
                registry = given;
                return this;
            }

            @Override
            public Builder withLogContext(LogContext given) {
                return this;
            }

            @Override
            public Builder withTime(Time given) {
                return this;
            }

            @Override
            public Builder withTimer(CoordinatorTimer<Integer> given) {
                return this;
            }

            @Override
            public Builder withExecutor(CoordinatorExecutor<Integer> given) {
                return this;
            }

            @Override
            public Builder withCoordinatorMetrics(CoordinatorMetrics given) {
                return this;
            }

            @Override
            public Builder withTopicPartition(TopicPartition given) {
                return this;
            }

            @Override
            public Counter build() {
                return new Counter(registry);
            }
        }
    }

    private static final class Numbers implements Serializer<Integer> {
        @Override
        public byte[] serializeKey(Integer record) {
            return bytes(0);
        }

        @Override
        public byte[] serializeValue(Integer record) {
            return bytes(record);
        }
    }

    private static final class NoMetrics extends CoordinatorMetrics {
        @Override
        public CoordinatorMetricsShard newMetricsShard(SnapshotRegistry registry, TopicPartition of) {
            return nothing(CoordinatorMetricsShard.class);
        }

        @Override
        public void activateMetricsShard(CoordinatorMetricsShard shard) {}

        @Override
        public void deactivateMetricsShard(CoordinatorMetricsShard shard) {}

        @Override
        public void onUpdateLastCommittedOffset(TopicPartition partition, long offset) {}
    }
}
