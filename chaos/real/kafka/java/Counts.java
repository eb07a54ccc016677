import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * An application of Kafka Streams, which counts the orders of each customer: Counts BOOTSTRAP FOLDER GUARANTEE COMMIT_MS
 *
 * <p>It reads orders, repartitions them by customer, counts in a store with a changelog, and writes each new count. The end of its
 * input stops it in an orderly way.
 */
public final class Counts {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "counts");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[1]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, arguments[2]);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, arguments[3]);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0");
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, "-1");
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), "6000");
        settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), "500");
        settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), "5000");

        StreamsBuilder builder = new StreamsBuilder();
        Materialized<String, Long, KeyValueStore<Bytes, byte[]>> store =
                Materialized.as(Stores.inMemoryKeyValueStore("counted"));
        builder.<String, String>stream("orders")
                .selectKey((order, customer) -> customer)
                .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
                .count(store.withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
                .toStream()
                .mapValues(String::valueOf)
                .to("counts", Produced.with(Serdes.String(), Serdes.String()));

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        CountDownLatch ended = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            System.out.println(now);
            if (now == KafkaStreams.State.ERROR) {
                ended.countDown();
            }
        });
        streams.start();
        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    continue;
                }
            } catch (java.io.IOException gone) {
                System.out.println(gone);
            }
            ended.countDown();
        });
        input.setDaemon(true);
        input.start();
        ended.await();
        streams.close();
    }
}
