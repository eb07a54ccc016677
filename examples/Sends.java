import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Sends each line of its input to a topic, by Kafka's producer as it is by default. A line is a
 * value, and the number of a partition.
 *
 * Sends BOOTSTRAP TOPIC FILE NAME CLOCK IDS. It says on its output what became of each record. Its
 * calls are lines of trace format v1 in FILE, in the order in which they began.
 */
public final class Sends {
    private static final String HEADER = "highwater-id";

    private final String topic, name, clock;
    private final PrintWriter trace;
    private final KafkaProducer<String, String> producer;
    private final TreeMap<Long, String> ended = new TreeMap<>();
    private long seq, written, ids;

    private Sends(String[] arguments) throws IOException {
        topic = arguments[1];
        trace = new PrintWriter(Path.of(arguments[2]).toFile());
        name = arguments[3];
        clock = arguments[4];
        ids = Long.parseLong(arguments[5]);
        // A client hears of another leader within two seconds, and not within five minutes.
        producer = new KafkaProducer<>(Map.of(
            "bootstrap.servers", arguments[0], "client.id", name, "metadata.max.age.ms", 2000,
            "key.serializer", StringSerializer.class, "value.serializer", StringSerializer.class));
    }

    public static void main(String[] arguments) throws IOException {
        new Sends(arguments).run();
    }

    private void run() throws IOException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine())
            send(line.split(" ")[0], Integer.parseInt(line.split(" ")[1]));
        producer.close();
        line(seq, "close", System.nanoTime(), "ok", "");
        trace.close();
    }

    private void send(String value, int partition) {
        long id = ++ids, call = seq++, began = System.nanoTime();
        ProducerRecord<String, String> record = new ProducerRecord<>(topic, partition, null, value);
        record.headers().add(new RecordHeader(HEADER, ByteBuffer.allocate(8).putLong(id).array()));
        producer.send(record, (stored, refused) -> {
            String error = refused == null ? "" : refused.getClass().getSimpleName();
            line(call, "send", began, refused == null ? "ok" : "info", records(partition, id, stored, error));
            System.out.println(refused == null
                ? value + " is acknowledged at offset " + stored.offset() : value + " fails: " + error);
            System.out.flush();
        });
    }

    private String records(int partition, long id, RecordMetadata stored, String error) {
        String offset = error.isEmpty() ? ",\"offset\":" + stored.offset() : "";
        String why = error.isEmpty() ? "" : ",\"error\":\"" + error + '"';
        return ",\"records\":[{\"topic\":\"" + topic + "\",\"partition\":" + partition + ",\"id\":" + id + offset + "}]" + why;
    }

    /** Lines are in program order: a call that has ended waits for those that began before. */
    private synchronized void line(long call, String op, long began, String outcome, String more) {
        ended.put(call, "{\"process\":\"%s#0\",\"clock\":\"%s\",\"seq\":%d,\"op\":\"%s\",\"outcome\":\"%s\","
            .formatted(name, clock, call, op, outcome)
            + "\"invoked_ns\":%d,\"returned_ns\":%d%s}".formatted(began, System.nanoTime(), more));
        while (ended.containsKey(written))
            trace.println(ended.remove(written++));
        trace.flush();
    }
}
