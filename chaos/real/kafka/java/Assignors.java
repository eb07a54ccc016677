import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Asks the assignors of Kafka's consumer, many times in one JVM.
 *
 * A case is a line of JSON on standard input, the answer a line of JSON: each member's subscription
 * as its client writes it, what the leader assigns, and that as the leader writes it. A case with
 * `strings` asks for the order of a HashSet instead.
 */
public final class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(
            new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err); // the assignors' warnings
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = cases.readLine()) != null;)
            answers.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
    }

    private static ObjectNode answer(JsonNode given) {
        ObjectNode answer = JSON.createObjectNode();
        if (given.has("strings")) {
            order(given, answer.putArray("strings"));
            return answer;
        }
        try {
            assign(given, answer);
        } catch (RuntimeException refused) {
            answer.put("error", refused.getClass().getSimpleName());
        }
        return answer;
    }

    private static void order(JsonNode given, ArrayNode answer) {
        Set<String> keys = given.has("capacity")
            ? new HashSet<>(given.get("capacity").asInt()) : new HashSet<>();
        given.get("strings").forEach(key -> keys.add(key.asText()));
        keys.forEach(answer::add);
    }

    private static void assign(JsonNode given, ObjectNode answer) {
        String name = given.get("assignor").asText();
        Map<String, Subscription> subscriptions = new HashMap<>();
        ObjectNode written = answer.putObject("subscriptions");
        for (JsonNode member : given.get("members")) {
            String id = member.get("id").asText();
            ByteBuffer metadata = subscription(name, member);
            written.put(id, hex(metadata));
            Subscription read = ConsumerProtocol.deserializeSubscription(metadata);
            read.setGroupInstanceId(optional(member, "instance_id"));
            subscriptions.put(id, read);
        }
        Map<String, Assignment> assigned = assignor(name)
            .assign(cluster(given.get("topics")), new GroupSubscription(subscriptions))
            .groupAssignment();
        ObjectNode parts = answer.putObject("assigned");
        ObjectNode bytes = answer.putObject("assignments");
        assigned.forEach((id, part) -> {
            ArrayNode list = parts.putArray(id);
            part.partitions().forEach(one -> list.addArray().add(one.topic()).add(one.partition()));
            bytes.put(id, hex(ConsumerProtocol.serializeAssignment(part)));
        });
    }

    /** What a client of the given version sends, which owned something in a generation. */
    @SuppressWarnings("removal")
    private static ByteBuffer subscription(String name, JsonNode member) {
        ConsumerPartitionAssignor assignor = assignor(name);
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.asText()));
        List<TopicPartition> owned = new ArrayList<>();
        member.get("owned").forEach(one ->
            owned.add(new TopicPartition(one.get(0).asText(), one.get(1).asInt())));
        int generation = member.get("generation").asInt();
        if (generation >= 0 || !owned.isEmpty())
            assignor.onAssignment(new Assignment(owned),
                new ConsumerGroupMetadata("group", generation, "member", Optional.empty()));
        boolean keeps = assignor.supportedProtocols()
            .contains(ConsumerPartitionAssignor.RebalanceProtocol.COOPERATIVE);
        Subscription subscription = new Subscription(topics,
            assignor.subscriptionUserData(Set.copyOf(topics)), keeps ? owned : List.of(), generation,
            optional(member, "rack"));
        return ConsumerProtocol.serializeSubscription(
            subscription, (short) member.get("version").asInt());
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(name);
        };
    }

    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            for (int p = 0; p < topic.getValue().size(); p++) {
                List<Node> replicas = new ArrayList<>();
                topic.getValue().get(p).forEach(rack -> replicas.add(nodes.computeIfAbsent(
                    rack.asText(), r -> new Node(nodes.size(), "host", 9092, r))));
                if (replicas.isEmpty())
                    replicas.add(nodes.computeIfAbsent("", r -> new Node(nodes.size(), "host", 9092)));
                Node[] nodesOf = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), p, nodesOf[0], nodesOf, nodesOf));
            }
        });
        return new Cluster("cluster", nodes.values(), partitions, Set.of(), Set.of());
    }

    private static Optional<String> optional(JsonNode member, String field) {
        return member.hasNonNull(field) ? Optional.of(member.get(field).asText()) : Optional.empty();
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
