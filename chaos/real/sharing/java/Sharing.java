import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.stream.Collectors;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.SharePartitionOffsetInfo;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Members of share groups, each with a thread, a recording and commands of its own.
 *
 * Sharing BOOTSTRAP FOLDER CLOCK TOPIC. A line of the input names a member and what it is to
 * do; a line of the output names it and tells what came of that:
 *
 *   NAME join GROUP MOST      at most so many records a poll
 *   NAME take COUNT MS        poll until it has so many more, or the time is over: their offsets
 *   NAME finish ACCEPT        acknowledge all that it holds, and wait for the answer
 *   NAME fetches              how many ShareFetch it has sent
 *   NAME close
 *   admin start GROUP         where the group starts, and its lag
 *   watcher watch GROUP ISOLATION
 *                             ask where the group starts and the partitions end, over and over
 *   watcher stop              how often it asked
 *
 * Calls are lines of trace format v1 in FOLDER. Polls that give nothing are one line a second.
 */
public final class Sharing {
    private static final String HEADER = "highwater-id";
    private static final Duration ANSWER = Duration.ofSeconds(60), CLOSE = Duration.ofSeconds(5);
    private static final long SECOND = 1_000_000_000L, PAUSE_MS = 500, POLL_MS = 1_000;

    private static String bootstrap, folder, clock, topic;

    private final String name;
    private final PrintWriter trace;
    private final List<ConsumerRecord<byte[], byte[]>> held = new ArrayList<>();
    private KafkaShareConsumer<byte[], byte[]> consumer;
    private Admin admin;
    private String group;
    private long seq, asked, vain, vainEnds;
    private volatile boolean stopped;

    private Sharing(String name) throws IOException {
        this.name = name;
        trace = new PrintWriter(Path.of(folder, name + "#0.ndjson").toFile());
    }

    public static void main(String[] arguments) throws IOException {
        bootstrap = arguments[0];
        folder = arguments[1];
        clock = arguments[2];
        topic = arguments[3];
        Map<String, Sharing> members = new TreeMap<>();
        Map<String, ExecutorService> threads = new TreeMap<>();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] told = line.split(" ");
            if (!members.containsKey(told[0])) {
                members.put(told[0], new Sharing(told[0]));
                threads.put(told[0], Executors.newSingleThreadExecutor());
            }
            Sharing member = members.get(told[0]);
            if (told[1].equals("stop"))
                member.stopped = true;
            threads.get(told[0]).execute(() -> member.say(member.answer(told)));
        }
        System.exit(0);
    }

    private String answer(String[] told) {
        try {
            switch (told[1]) {
                case "join":
                    group = told[2];
                    return join(told[3]);
                case "take":
                    return take(Integer.parseInt(told[2]), Long.parseLong(told[3]));
                case "finish":
                    return finish(AcknowledgeType.valueOf(told[2]));
                case "fetches":
                    return fetches();
                case "start":
                    group = told[2];
                    return start();
                case "watch":
                    group = told[2];
                    return watch(IsolationLevel.valueOf(told[3].toUpperCase()));
                case "stop":
                    return "stopped";
                default:
                    return close();
            }
        } catch (Exception failed) {
            return "failed: " + failed;
        }
    }

    private String join(String most) {
        consumer = new KafkaShareConsumer<>(Map.of(
            "bootstrap.servers", bootstrap, "client.id", name, "group.id", group,
            "share.acknowledgement.mode", "explicit", "share.acquire.mode", "record_limit",
            "max.poll.records", most), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        long began = System.nanoTime();
        consumer.subscribe(List.of(topic));
        asked = began;
        write("subscribe", began, "ok", "\"topics\":[\"" + topic + "\"]", partitions(), inGroup());
        return "joined";
    }

    /**
     * What a poll returns may have been asked for since the last poll that returned something.
     * Polls are long: each that begins while an answer is on its way may ask for more beside it.
     */
    private String take(int count, long ms) {
        int wanted = held.size() + count;
        List<String> offsets = new ArrayList<>();
        long end = System.currentTimeMillis() + ms;
        for (long left = ms; held.size() < wanted && left > 0;
                left = end - System.currentTimeMillis()) {
            long began = System.nanoTime();
            ConsumerRecords<byte[], byte[]> polled =
                consumer.poll(Duration.ofMillis(Math.min(POLL_MS, left)));
            if (polled.isEmpty()) {
                waited(began);
                continue;
            }
            endWait();
            List<String> lines = new ArrayList<>();
            for (ConsumerRecord<byte[], byte[]> record : polled) {
                held.add(record);
                offsets.add(String.valueOf(record.offset()));
                lines.add(record(record, "\"delivery_count\":" + record.deliveryCount().get()));
            }
            write("acquire", asked, "ok", inGroup(), records(lines));
            asked = began;
        }
        endWait();
        return "took " + String.join(",", offsets);
    }

    /** Polls that follow each other and give nothing are one line, which a second makes full. */
    private void waited(long began) {
        if (vain == 0)
            vain = began;
        vainEnds = System.nanoTime();
        if (vainEnds - vain >= SECOND)
            endWait();
    }

    private void endWait() {
        if (vain == 0)
            return;
        write("acquire", vain, vainEnds, "ok", inGroup(), "\"records\":[]", partitions());
        vain = 0;
    }

    private String finish(AcknowledgeType type) {
        List<String> lines = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> record : held) {
            consumer.acknowledge(record, type);
            lines.add(record(record, "\"ack\":\"" + type.toString().toLowerCase() + '"'));
        }
        held.clear();
        long began = System.nanoTime();
        String refused = consumer.commitSync(ANSWER).values().stream().flatMap(one -> one.stream())
            .map(one -> one.getClass().getSimpleName()).collect(Collectors.joining(","));
        String outcome = refused.isEmpty() ? "ok" : "info";
        write("acknowledge", began, outcome, inGroup(), records(lines));
        return "finished " + (refused.isEmpty() ? "ok" : refused);
    }

    private String fetches() {
        double most = consumer.metrics().entrySet().stream()
            .filter(one -> one.getKey().name().equals("fetch-total"))
            .mapToDouble(one -> (Double) one.getValue().metricValue()).max().orElse(0);
        return "fetched " + (long) most;
    }

    private void admin() {
        if (admin == null)
            admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "client.id", name,
                "request.timeout.ms", "5000", "default.api.timeout.ms", "10000"));
    }

    /** A question that nobody answers leaves no line. */
    private String watch(IsolationLevel isolation) throws InterruptedException {
        admin();
        int answers = 0;
        while (!stopped) {
            try {
                start();
                end(isolation);
                answers++;
            } catch (ExecutionException unanswered) {
                // the next one may be
            }
            Thread.sleep(PAUSE_MS);
        }
        return "watched " + answers;
    }

    private void end(IsolationLevel isolation) throws ExecutionException, InterruptedException {
        TopicPartition where = new TopicPartition(topic, 0);
        long began = System.nanoTime();
        long end = admin.listOffsets(Map.of(where, OffsetSpec.latest()),
            new ListOffsetsOptions(isolation)).partitionResult(where).get().offset();
        write("list_offsets", began, "ok", "\"query\":\"latest\"",
            "\"isolation\":\"" + isolation.toString() + '"',
            "\"offsets\":{\"" + topic + ":0\":" + end + '}');
    }

    private String start() throws ExecutionException, InterruptedException {
        admin();
        long began = System.nanoTime();
        Map<?, SharePartitionOffsetInfo> found = admin.listShareGroupOffsets(
            Map.of(group, new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(group).get();
        SharePartitionOffsetInfo told = found.values().iterator().next();
        if (told == null || told.startOffset() < 0)
            return "starts -1 -1";
        write("committed", began, "ok", inGroup(), partitions(),
            "\"offsets\":{\"" + topic + ":0\":" + told.startOffset() + '}');
        return "starts " + told.startOffset() + ' ' + told.lag().orElse(-1L);
    }

    private String close() {
        long began = System.nanoTime();
        if (consumer != null)
            consumer.close(CLOSE);
        if (admin != null)
            admin.close();
        write("close", began, "ok");
        trace.close();
        return "closed";
    }

    private String inGroup() {
        return "\"group\":\"" + group + '"';
    }

    /** The topic has one. */
    private static String partitions() {
        return "\"partitions\":[\"" + topic + ":0\"]";
    }

    private static String records(List<String> lines) {
        return "\"records\":[" + String.join(",", lines) + ']';
    }

    private static String record(ConsumerRecord<byte[], byte[]> record, String more) {
        Header id = record.headers().lastHeader(HEADER);
        String named = id == null ? "" : "\"id\":" + ByteBuffer.wrap(id.value()).getLong() + ',';
        return "{\"topic\":\"" + record.topic() + "\",\"partition\":" + record.partition()
            + ",\"offset\":" + record.offset() + ',' + named + more + '}';
    }

    private void write(String op, long began, String outcome, String... more) {
        write(op, began, System.nanoTime(), outcome, more);
    }

    private void write(String op, long began, long ended, String outcome, String... more) {
        trace.printf("{\"process\":\"%s#0\",\"clock\":\"%s\",\"seq\":%d,\"op\":\"%s\","
            + "\"outcome\":\"%s\",\"invoked_ns\":%d,\"returned_ns\":%d",
            name, clock, seq++, op, outcome, began, ended);
        for (String field : more)
            trace.print("," + field);
        trace.println('}');
        trace.flush();
    }

    private void say(String what) {
        synchronized (System.out) {
            System.out.println(name + ' ' + what);
            System.out.flush();
        }
    }
}
