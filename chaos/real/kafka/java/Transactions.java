import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Transactions of the Java client: committed, aborted, with offsets, fenced, and timed out. Transactions BOOTSTRAP */
public final class Transactions {
    private static final TopicPartition PARTITION = new TopicPartition("java", 0);
    private static String bootstrap;

    private static KafkaProducer<String, String> producer(String id, int timeoutMs) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "transactional.id", id, "transaction.timeout.ms", timeoutMs);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private static void send(KafkaProducer<String, String> producer, String value) throws Exception {
        producer.send(new ProducerRecord<>(PARTITION.topic(), PARTITION.partition(), null, value)).get();
    }

    private static KafkaConsumer<String, String> consumer() {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "group.id", "java-group"));
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", "false");
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private static List<String> read() {
        List<String> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer()) {
            consumer.assign(List.of(PARTITION));
            consumer.seekToBeginning(List.of(PARTITION));
            long end = consumer.endOffsets(List.of(PARTITION)).get(PARTITION);
            while (consumer.position(PARTITION) < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    found.add(record.value());
                }
            }
        }
        return found;
    }

    private static void attempt(String what, Runnable action) {
        try {
            action.run();
            System.out.println(what + ": done");
        } catch (RuntimeException refused) {
            System.out.println(what + ": " + refused.getClass().getSimpleName());
        }
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        KafkaProducer<String, String> first = producer("java", 60000);
        first.initTransactions();
        for (int number = 0; number < 4; number++) {
            first.beginTransaction();
            send(first, "in " + number);
            send(first, "in " + number);
            if (number % 2 == 0) {
                first.commitTransaction();
            } else {
                first.abortTransaction();
            }
        }
        first.beginTransaction();
        first.abortTransaction();
        first.beginTransaction();
        first.commitTransaction();
        try (KafkaConsumer<String, String> consumer = consumer(); Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            consumer.subscribe(List.of(PARTITION.topic()));
            while (consumer.poll(Duration.ofMillis(100)).isEmpty()) {
                continue;
            }
            for (boolean commits : new boolean[] {false, true}) {
                first.beginTransaction();
                send(first, commits ? "with offsets" : "aborted with offsets");
                first.sendOffsetsToTransaction(Map.of(PARTITION, new OffsetAndMetadata(commits ? 3 : 2)), consumer.groupMetadata());
                if (commits) {
                    first.commitTransaction();
                } else {
                    first.abortTransaction();
                }
                OffsetAndMetadata offset = admin.listConsumerGroupOffsets("java-group").partitionsToOffsetAndMetadata().get().get(PARTITION);
                System.out.println("offset " + (offset == null ? "none" : offset.offset()));
            }
        }
        first.beginTransaction();
        send(first, "of the zombie");
        KafkaProducer<String, String> second = producer("java", 60000);
        second.initTransactions();
        attempt("the zombie commits", first::commitTransaction);
        second.beginTransaction();
        send(second, "of the newest");
        second.commitTransaction();
        KafkaProducer<String, String> slow = producer("java-slow", 1000);
        slow.initTransactions();
        slow.beginTransaction();
        send(slow, "too late");
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            while (!admin.describeTransactions(List.of("java-slow")).description("java-slow").get().state().toString().equals("CompleteAbort")) {
                Thread.sleep(50);
            }
            System.out.println("listed " + admin.listTransactions().all().get().size());
        }
        attempt("the slow one aborts", slow::abortTransaction);
        System.out.println(read());
        first.close(Duration.ZERO);
        second.close();
        slow.close(Duration.ZERO);
    }
}
