import java.io.IOException;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * An exactly-once application, by the loop of KafkaProducer's documentation: it reads orders, and
 * writes an invoice for each in the transaction that commits the order's offset.
 *
 * Billing BOOTSTRAP FILE NAME CLOCK IDS PROTOCOL [listener]. It says on its output what it has
 * polled, and waits: w, the work on that is done; e, likewise, and it was the last; x, it ends. Its
 * calls are lines of trace format v1 in FILE.
 */
public final class Billing {
    private static final String GROUP = "billing", HEADER = "highwater-id";

    private final String name, clock;
    private final PrintWriter trace;
    private final KafkaConsumer<String, String> consumer;
    private final KafkaProducer<String, String> producer;
    private long seq, ids, transaction;

    private Billing(String[] arguments) throws IOException {
        trace = new PrintWriter(Path.of(arguments[1]).toFile());
        name = arguments[2];
        clock = arguments[3];
        ids = Long.parseLong(arguments[4]);
        consumer = new KafkaConsumer<>(Map.of(
            "bootstrap.servers", arguments[0], "client.id", name, "group.id", GROUP,
            "group.protocol", arguments[5], "max.poll.records", 1, "enable.auto.commit", false,
            "isolation.level", "read_committed", "auto.offset.reset", "earliest",
            "key.deserializer", StringDeserializer.class,
            "value.deserializer", StringDeserializer.class));
        producer = new KafkaProducer<>(Map.of(
            "bootstrap.servers", arguments[0], "transactional.id", "billing-" + name,
            "transaction.timeout.ms", 300_000, "key.serializer", StringSerializer.class,
            "value.serializer", StringSerializer.class));
    }

    public static void main(String[] arguments) throws IOException {
        Billing billing = new Billing(arguments);
        billing.run(arguments.length > 6);
    }

    private void run(boolean listening) throws IOException {
        long began = System.nanoTime();
        producer.initTransactions();
        write("init_producer", began, "ok", id());
        began = System.nanoTime();
        if (listening)
            consumer.subscribe(List.of("orders"), new Listener());
        else
            consumer.subscribe(List.of("orders"));
        write("subscribe", began, "ok", "\"topics\":[\"orders\"],\"group\":\"" + GROUP + '"');
        boolean more = true;
        while (more) {
            began = System.nanoTime();
            ConsumerRecords<String, String> polled = consumer.poll(Duration.ofMillis(100));
            for (ConsumerRecord<String, String> order : polled) {
                long number = ByteBuffer.wrap(order.headers().lastHeader(HEADER).value()).getLong();
                write("poll", began, "ok", inside(), member(consumer.groupMetadata()),
                    "\"isolation\":\"read_committed\"",
                    records(order.topic(), order.offset(), number));
                say("polled " + order.value() + " in epoch " + consumer.groupMetadata().generationId());
                int told = System.in.read();
                if (told != 'x')
                    process(order);
                more = told == 'w';
            }
        }
        write("close", System.nanoTime(), "ok");
        trace.close();
        System.exit(0);
    }

    private void process(ConsumerRecord<String, String> order) {
        long began = System.nanoTime();
        String op = "txn_begin", more = inside();
        try {
            producer.beginTransaction();
            write(op, began, "ok", id(), more);
            op = "send";
            began = System.nanoTime();
            long id = ++ids;
            byte[] named = ByteBuffer.allocate(8).putLong(id).array();
            ProducerRecord<String, String> invoice =
                new ProducerRecord<>("invoices", 0, null, order.value());
            invoice.headers().add(new RecordHeader(HEADER, named));
            RecordMetadata stored = producer.send(invoice).get();
            write(op, began, "ok", id(), inside(), records("invoices", stored.offset(), id));
            op = "txn_offsets";
            began = System.nanoTime();
            ConsumerGroupMetadata membership = consumer.groupMetadata();
            long behind = order.offset() + 1;
            String offsets = "\"offsets\":{\"orders:0\":" + behind + '}';
            more = String.join(",", inside(), member(membership), offsets);
            TopicPartition from = new TopicPartition(order.topic(), order.partition());
            producer.sendOffsetsToTransaction(Map.of(from, new OffsetAndMetadata(behind)), membership);
            write(op, began, "ok", id(), more);
            op = "txn_commit";
            began = System.nanoTime();
            more = inside();
            producer.commitTransaction();
            write(op, began, "ok", id(), more);
            say("committed " + order.value() + " in epoch " + membership.generationId());
        } catch (Exception refused) {
            String why = refused.getClass().getSimpleName();
            write(op, began, "info", id(), more, "\"error\":\"" + why + '"');
            say("refused " + order.value() + ": " + why);
            abort();
        }
        transaction++;
    }

    private void abort() {
        long began = System.nanoTime();
        try {
            producer.abortTransaction();
            write("txn_abort", began, "ok", id(), inside());
        } catch (KafkaException refused) {
            write("txn_abort", began, "info", id(), inside());
        }
    }

    private String id() {
        return "\"transactional_id\":\"billing-" + name + '"';
    }

    private String inside() {
        return "\"txn\":" + transaction;
    }

    private static String member(ConsumerGroupMetadata membership) {
        return "\"group\":\"" + GROUP + "\",\"member\":\"" + membership.memberId()
            + "\",\"generation\":" + membership.generationId();
    }

    private static String records(String topic, long offset, long id) {
        return "\"records\":[{\"topic\":\"" + topic + "\",\"partition\":0,\"offset\":" + offset
            + ",\"id\":" + id + "}]";
    }

    private void write(String op, long began, String outcome, String... more) {
        trace.printf("{\"process\":\"%s#0\",\"clock\":\"%s\",\"seq\":%d,\"op\":\"%s\","
            + "\"outcome\":\"%s\",\"invoked_ns\":%d,\"returned_ns\":%d",
            name, clock, seq++, op, outcome, began, System.nanoTime());
        for (String field : more)
            trace.print("," + field);
        trace.println('}');
        trace.flush();
    }

    private void say(String what) {
        System.out.println(what);
        System.out.flush();
    }

    /** What is polled is worked on at once, so there is nothing to let go. */
    private static final class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        }
    }
}
