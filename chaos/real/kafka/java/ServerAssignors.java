import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Asks the assignors of Kafka's group coordinator, many times in one JVM.
 *
 * A case is a line of JSON on standard input, the answer a line of JSON: what each member shall
 * have, by the index of a topic. Topics are named by their ids in hexadecimal digits.
 */
public final class ServerAssignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(
            new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = cases.readLine()) != null;)
            answers.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
    }

    private static ObjectNode answer(JsonNode given) {
        Map<Uuid, Integer> sizes = new HashMap<>();
        given.get("topics").fields().forEachRemaining(topic -> sizes.put(id(topic.getKey()), topic.getValue().asInt()));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (JsonNode member : given.get("members")) {
            String name = member.get("id").asText();
            Set<Uuid> topics = new HashSet<>();
            member.get("topics").forEach(topic -> topics.add(id(topic.asText())));
            Map<Uuid, Set<Integer>> target = new HashMap<>();
            member.get("target").fields().forEachRemaining(topic -> {
                List<Integer> numbers = new ArrayList<>();
                topic.getValue().forEach(p -> numbers.add(p.asInt()));
                Set<Integer> parts = new HashSet<>(numbers); // as from a record
                target.put(id(topic.getKey()), parts);
                parts.forEach(p -> owners.computeIfAbsent(id(topic.getKey()), t -> new HashMap<>()).put(p, name));
            });
            Optional<String> instance = member.hasNonNull("instance_id")
                ? Optional.of(member.get("instance_id").asText()) : Optional.empty();
            members.put(name, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), instance, topics, new Assignment(target)));
        }
        SubscriptionType type = given.get("homogeneous").asBoolean()
            ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        ConsumerGroupPartitionAssignor assignor =
            given.get("assignor").asText().equals("range") ? new RangeAssignor() : new UniformAssignor();
        Map<String, MemberAssignment> found = assignor.assign(
            new GroupSpecImpl(Collections.unmodifiableMap(members), type, owners, Optional.empty()),
            new Sizes(sizes)).members();
        ObjectNode answer = JSON.createObjectNode();
        found.forEach((name, part) -> {
            ObjectNode mine = answer.putObject(name);
            part.partitions().forEach((topic, partitions) -> {
                ArrayNode numbers = mine.putArray(hex(topic));
                partitions.stream().sorted().forEach(numbers::add);
            });
        });
        return answer;
    }

    private static Uuid id(String hex) {
        return new Uuid(Long.parseUnsignedLong(hex.substring(0, 16), 16), Long.parseUnsignedLong(hex.substring(16), 16));
    }

    private static String hex(Uuid id) {
        return String.format("%016x%016x", id.getMostSignificantBits(), id.getLeastSignificantBits());
    }

    private record Sizes(Map<Uuid, Integer> sizes) implements SubscribedTopicDescriber {
        @Override
        public int numPartitions(Uuid topic) {
            return sizes.getOrDefault(topic, -1);
        }

        @Override
        public Set<String> racksForPartition(Uuid topic, int partition) {
            return Set.of();
        }
    }
}
