import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.SharePartitionOffsetInfo;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Share groups of the Java client: implicit and explicit acknowledgement, aborted records, offsets. Shares BOOTSTRAP */
public final class Shares {
    private static final Duration POLL = Duration.ofMillis(500);
    private static String bootstrap;

    private static KafkaShareConsumer<String, String> consumer(String group, String topic, String mode) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "group.id", group, "share.acknowledgement.mode", mode);
        KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    private static void configure(Admin admin, String group, String... pairs) throws Exception {
        Collection<AlterConfigOp> ops = new ArrayList<>();
        for (int i = 0; i < pairs.length; i += 2) {
            ops.add(new AlterConfigOp(new ConfigEntry(pairs[i], pairs[i + 1]), AlterConfigOp.OpType.SET));
        }
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, group), ops)).all().get();
    }

    private static void send(String topic, String transaction, boolean commit, int from, int to) throws Exception {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        if (transaction != null) {
            settings.put("transactional.id", transaction);
        }
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            if (transaction != null) {
                producer.initTransactions();
                producer.beginTransaction();
            }
            for (int i = from; i < to; i++) {
                producer.send(new ProducerRecord<>(topic, 0, null, "v" + i));
            }
            producer.flush();
            if (transaction != null && commit) {
                producer.commitTransaction();
            } else if (transaction != null) {
                producer.abortTransaction();
            }
        }
    }

    /** Polls until so many records have come, or a time is over; tells values with their delivery counts. */
    private static Map<String, Integer> given(KafkaShareConsumer<String, String> consumer, int count, long ms, AcknowledgeType odd, AcknowledgeType even) {
        Map<String, Integer> found = new TreeMap<>();
        long end = System.currentTimeMillis() + ms;
        while (System.currentTimeMillis() < end && found.size() < count) {
            for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                found.put(record.value(), (int) record.deliveryCount().get());
                if (odd != null) {
                    consumer.acknowledge(record, record.offset() % 2 == 1 ? odd : even);
                }
            }
        }
        consumer.commitSync().forEach((partition, error) -> error.ifPresent(e -> System.out.println("commit: " + e.getClass().getSimpleName())));
        return found;
    }

    private static void offsets(Admin admin, String group) throws Exception {
        Map<TopicPartition, SharePartitionOffsetInfo> found =
            admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(group).get();
        found.forEach((partition, info) -> System.out.println(group + ": " + partition + " starts at " + info.startOffset() + ", lag " + info.lag().orElse(-1L)));
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic("implicit", 1, (short) 1), new NewTopic("explicit", 1, (short) 1), new NewTopic("aborted", 1, (short) 1))).all().get();
            for (String group : List.of("implicit", "explicit", "aborted")) {
                configure(admin, group, "share.auto.offset.reset", "earliest");
            }
            configure(admin, "aborted", "share.isolation.level", "read_committed");

            send("implicit", null, true, 0, 20);
            try (KafkaShareConsumer<String, String> consumer = consumer("implicit", "implicit", "implicit")) {
                System.out.println("implicit: " + given(consumer, 20, 30000, null, null));
            }
            try (KafkaShareConsumer<String, String> consumer = consumer("implicit", "implicit", "implicit")) {
                System.out.println("again: " + given(consumer, 1, 9000, null, null));
                System.out.println("state: " + admin.describeShareGroups(List.of("implicit")).all().get().get("implicit").groupState());
            }
            offsets(admin, "implicit");

            send("explicit", null, true, 0, 10);
            try (KafkaShareConsumer<String, String> consumer = consumer("explicit", "explicit", "explicit")) {
                System.out.println("explicit: " + given(consumer, 10, 30000, AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE));
                System.out.println("released: " + given(consumer, 5, 15000, AcknowledgeType.REJECT, AcknowledgeType.REJECT));
                System.out.println("rejected: " + given(consumer, 1, 3000, AcknowledgeType.ACCEPT, AcknowledgeType.ACCEPT));
            }
            offsets(admin, "explicit");

            send("aborted", "t", false, 0, 50);
            send("aborted", "t", true, 50, 60);
            try (KafkaShareConsumer<String, String> consumer = consumer("aborted", "aborted", "explicit")) {
                System.out.println("committed: " + given(consumer, 10, 30000, AcknowledgeType.ACCEPT, AcknowledgeType.ACCEPT));
            }

            admin.alterShareGroupOffsets("implicit", Map.of(new TopicPartition("implicit", 0), 17L)).all().get();
            offsets(admin, "implicit");
            try (KafkaShareConsumer<String, String> consumer = consumer("implicit", "implicit", "implicit")) {
                System.out.println("set: " + given(consumer, 3, 15000, null, null));
            }
            admin.deleteShareGroupOffsets("explicit", java.util.Set.of("explicit")).all().get();
            admin.deleteShareGroups(List.of("implicit", "explicit", "aborted")).all().get();
            System.out.println("groups: " + admin.listGroups().all().get().size());
        }
    }

    private Shares() { }
}
