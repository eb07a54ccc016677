package org.apache.kafka.clients.consumer.internals;

import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.ClientRequest;
import org.apache.kafka.clients.ClientResponse;
import org.apache.kafka.clients.ScriptedClient;
import org.apache.kafka.clients.ScriptedClient.ScriptTime;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RetriableCommitFailedException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.DisconnectException;
import org.apache.kafka.common.internals.ClusterResourceListeners;
import org.apache.kafka.common.message.FindCoordinatorResponseData;
import org.apache.kafka.common.message.HeartbeatResponseData;
import org.apache.kafka.common.message.JoinGroupRequestData;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.LeaveGroupResponseData;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.OffsetFetchRequestData;
import org.apache.kafka.common.message.OffsetFetchResponseData;
import org.apache.kafka.common.message.SyncGroupRequestData;
import org.apache.kafka.common.message.SyncGroupResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.FindCoordinatorRequest;
import org.apache.kafka.common.requests.FindCoordinatorResponse;
import org.apache.kafka.common.requests.HeartbeatRequest;
import org.apache.kafka.common.requests.HeartbeatResponse;
import org.apache.kafka.common.requests.JoinGroupRequest;
import org.apache.kafka.common.requests.JoinGroupResponse;
import org.apache.kafka.common.requests.LeaveGroupRequest;
import org.apache.kafka.common.requests.LeaveGroupResponse;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.requests.OffsetCommitRequest;
import org.apache.kafka.common.requests.OffsetCommitResponse;
import org.apache.kafka.common.requests.OffsetFetchRequest;
import org.apache.kafka.common.requests.OffsetFetchResponse;
import org.apache.kafka.common.requests.SyncGroupRequest;
import org.apache.kafka.common.requests.SyncGroupResponse;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.LogContext;

/**
 * Plays steps on Kafka's ConsumerCoordinator, within a consumer and with its own thread of heartbeats.
 *
 * A step is a line of JSON on standard input, and its events are one on standard output. That thread has its turn at
 * the end of each step, when its waits are over by the script's clock or Kafka has woken it; at other times it is kept out.
 */
public final class Coordinators {
    private static final ObjectMapper JSON = ScriptedClient.JSON;
    private static final int POLLS = 3;

    private static Play play = null;

    public static void main(String[] arguments) throws Exception {
        ScriptedClient.serve(step -> {
            if (step.get(0).asText().equals("new")) {
                if (play != null)
                    play.abandon();
                play = new Play(step.get(1));
            } else {
                play.play(step);
            }
            return play.events();
        });
    }

    /** Brokers that are always there. Metadata is always new, and committed offsets come at once. */
    private static final class ScriptClient extends ScriptedClient {
        final Runnable refresh;
        final Map<Integer, ClientRequest> asked = new LinkedHashMap<>();
        /** Of each API the error of all its answers, while a call waits for them: null outside of such calls. */
        JsonNode answers = null;

        ScriptClient(ScriptTime time, Runnable refresh) {
            super(time);
            this.refresh = refresh;
        }

        public void send(ClientRequest request, long now) {
            AbstractRequest body = request.requestBuilder().build();
            ObjectNode told = JSON.createObjectNode().put("id", request.correlationId()).put("api", body.apiKey().name);
            if (body instanceof OffsetFetchRequest fetch) {
                respond(request, committed(fetch), false);
                return;
            }
            if (!tell(told, body))
                return;
            // A lookup that is sent again before the first one is answered gets the same answer.
            if (!(body instanceof FindCoordinatorRequest) || asked.values().stream().noneMatch(one -> one.apiKey() == body.apiKey()))
                sent.add(told);
            asked.put(request.correlationId(), request);
            if (answers != null || body instanceof LeaveGroupRequest)
                answer(request.correlationId(), JSON.createObjectNode().put("error", answers == null ? "" : answers.path(body.apiKey().name).asText()));
        }

        /** Of each partition the group has committed offset 5. */
        private static AbstractResponse committed(OffsetFetchRequest fetch) {
            OffsetFetchResponseData.OffsetFetchResponseGroup group = new OffsetFetchResponseData.OffsetFetchResponseGroup().setGroupId("g");
            for (OffsetFetchRequestData.OffsetFetchRequestTopics topic : fetch.data().groups().get(0).topics()) {
                OffsetFetchResponseData.OffsetFetchResponseTopics found = new OffsetFetchResponseData.OffsetFetchResponseTopics().setName(topic.name());
                topic.partitionIndexes().forEach(p -> found.partitions().add(
                    new OffsetFetchResponseData.OffsetFetchResponsePartitions().setPartitionIndex(p).setCommittedOffset(5)));
                group.topics().add(found);
            }
            return new OffsetFetchResponse.Builder(List.of(group)).build(fetch.version());
        }

        private static boolean tell(ObjectNode told, AbstractRequest body) {
            if (body instanceof JoinGroupRequest join) {
                told.put("member", join.data().memberId()).put("instance", join.data().groupInstanceId());
                for (JoinGroupRequestData.JoinGroupRequestProtocol one : join.data().protocols()) {
                    ConsumerPartitionAssignor.Subscription given = ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(one.metadata()));
                    told.put("protocol", one.name()).put("generation", given.generationId().orElse(-1));
                    new TreeSet<>(given.topics()).forEach(told.putArray("topics")::add);
                    names(told.putArray("owned"), given.ownedPartitions());
                }
            } else if (body instanceof SyncGroupRequest sync) {
                told.put("member", sync.data().memberId()).put("generation", sync.data().generationId());
                ObjectNode made = told.putObject("assignments");
                for (SyncGroupRequestData.SyncGroupRequestAssignment one : sync.data().assignments())
                    names(made.putArray(one.memberId()), ConsumerProtocol.deserializeAssignment(ByteBuffer.wrap(one.assignment())).partitions());
            } else if (body instanceof HeartbeatRequest beat) {
                told.put("member", beat.data().memberId()).put("generation", beat.data().generationId());
            } else if (body instanceof LeaveGroupRequest leave) {
                told.put("member", leave.data().members().get(0).memberId());
            } else if (body instanceof OffsetCommitRequest commit) {
                told.put("member", commit.data().memberId()).put("generation", commit.data().generationIdOrMemberEpoch());
                ObjectNode offsets = told.putObject("offsets");
                Map<String, Long> all = new TreeMap<>();
                for (OffsetCommitRequestData.OffsetCommitRequestTopic topic : commit.data().topics())
                    topic.partitions().forEach(one -> all.put(topic.name() + "-" + one.partitionIndex(), one.committedOffset()));
                all.forEach(offsets::put);
            } else {
                return body instanceof FindCoordinatorRequest;
            }
            return true;
        }

        static void names(ArrayNode told, Collection<TopicPartition> partitions) {
            TreeSet<String> all = new TreeSet<>();
            partitions.forEach(one -> all.add(one.toString()));
            all.forEach(told::add);
        }

        void answer(int id, JsonNode answer) {
            ClientRequest asking = asked.remove(id);
            if (asking == null)
                return;
            List<ClientRequest> all = new ArrayList<>(List.of(asking));
            if (asking.apiKey() == ApiKeys.FIND_COORDINATOR)
                all.addAll(asked.values().stream().filter(one -> one.apiKey() == ApiKeys.FIND_COORDINATOR).toList());
            all.forEach(one -> asked.remove(one.correlationId()));
            for (ClientRequest request : all)
                respond(request, answer.isNull() ? null : response(request.requestBuilder().build(), answer), answer.isNull());
        }

        private static AbstractResponse response(AbstractRequest request, JsonNode answer) {
            short error = (answer.path("error").asText().isEmpty() ? Errors.NONE : Errors.valueOf(answer.get("error").asText())).code();
            if (request instanceof FindCoordinatorRequest find)
                return new FindCoordinatorResponse(new FindCoordinatorResponseData().setCoordinators(List.of(
                    new FindCoordinatorResponseData.Coordinator().setKey(find.data().coordinatorKeys().get(0)).setErrorCode(error)
                        .setNodeId(error == 0 ? 1 : -1).setHost("localhost").setPort(9092))));
            if (request instanceof JoinGroupRequest join) {
                JoinGroupResponseData data = new JoinGroupResponseData().setErrorCode(error).setMemberId(answer.path("member").asText())
                    .setGenerationId(answer.path("generation").asInt(-1)).setProtocolType("consumer").setLeader(answer.path("leader").asText());
                JoinGroupRequestData.JoinGroupRequestProtocol protocol = join.data().protocols().iterator().next();
                data.setProtocolName(protocol.name());
                if (error == 0 && data.leader().equals(data.memberId()))
                    for (JsonNode one : answer.get("members")) {
                        List<TopicPartition> owned = new ArrayList<>();
                        one.get("owned").forEach(name -> owned.add(partition(name)));
                        List<String> topics = new ArrayList<>();
                        one.get("topics").forEach(name -> topics.add(name.asText()));
                        ConsumerPartitionAssignor.Subscription given = new ConsumerPartitionAssignor.Subscription(topics, null, owned,
                            one.get("generation").asInt(), java.util.Optional.empty());
                        data.members().add(new JoinGroupResponseData.JoinGroupResponseMember().setMemberId(one.get("member").asText())
                            .setMetadata(ConsumerProtocol.serializeSubscription(given).array()));
                    }
                return new JoinGroupResponse(data, join.version());
            }
            if (request instanceof SyncGroupRequest) {
                List<TopicPartition> assigned = new ArrayList<>();
                answer.path("assigned").forEach(name -> assigned.add(partition(name)));
                byte[] bytes = error == 0 ? ConsumerProtocol.serializeAssignment(new ConsumerPartitionAssignor.Assignment(assigned)).array() : new byte[0];
                return new SyncGroupResponse(new SyncGroupResponseData().setErrorCode(error).setAssignment(bytes));
            }
            if (request instanceof HeartbeatRequest)
                return new HeartbeatResponse(new HeartbeatResponseData().setErrorCode(error));
            if (request instanceof LeaveGroupRequest)
                return new LeaveGroupResponse(new LeaveGroupResponseData().setErrorCode(error));
            Map<TopicPartition, Errors> errors = new HashMap<>();
            for (OffsetCommitRequestData.OffsetCommitRequestTopic topic : ((OffsetCommitRequest) request).data().topics())
                topic.partitions().forEach(one -> errors.put(new TopicPartition(topic.name(), one.partitionIndex()), Errors.forCode(error)));
            return new OffsetCommitResponse(errors);
        }

        @Override
        public List<ClientResponse> poll(long timeout, long now) {
            refresh.run();
            if (answers != null && ready.isEmpty())
                time.now += Math.max(1, Math.min(timeout, 1000));
            return super.poll(timeout, now);
        }

        /** Whoever gives up a connection has no answers from it. */
        @Override
        public void disconnect(String nodeId) {
            for (ClientRequest request : new ArrayList<>(asked.values()))
                if (request.destination().equals(nodeId))
                    answer(request.correlationId(), JSON.nullNode());
        }

        public int inFlightRequestCount() {
            return asked.size();
        }

        @Override
        public int inFlightRequestCount(String nodeId) {
            return (int) asked.values().stream().filter(one -> one.destination().equals(nodeId)).count();
        }

        @Override
        public ClientRequest newClientRequest(String nodeId, AbstractRequest.Builder<?> builder, long created, boolean expect) {
            return newClientRequest(nodeId, builder, created, expect, 1 << 30, null);
        }
    }

    private static TopicPartition partition(JsonNode name) {
        String text = name.asText();
        return new TopicPartition(text.substring(0, 1), Integer.parseInt(text.substring(2)));
    }

    private static final class Play implements ConsumerRebalanceListener {
        final ScriptTime time = new ScriptTime();
        final Map<String, Integer> topics = new TreeMap<>();
        final ConsumerMetadata metadata;
        final ScriptClient client;
        final SubscriptionState subscriptions;
        final ClassicKafkaConsumer<byte[], byte[]> consumer;
        final ConsumerCoordinator coordinator;
        final ConsumerNetworkClient network;
        final long backoff;
        long waitsSince = 0;
        ObjectNode told = JSON.createObjectNode();
        ArrayNode calls = JSON.createArrayNode();
        ArrayNode commits = JSON.createArrayNode();

        Play(JsonNode given) throws Exception {
            topics.put("t", 4);
            topics.put("u", 2);
            backoff = given.get("retry.backoff.ms").asLong();
            Map<String, Object> settings = new HashMap<>();
            given.properties().forEach(one -> settings.put(one.getKey(), one.getValue().asText()));
            settings.put("bootstrap.servers", "localhost:9092");
            settings.put("key.deserializer", ByteArrayDeserializer.class);
            settings.put("value.deserializer", ByteArrayDeserializer.class);
            settings.put("group.id", "g");
            settings.put("request.timeout.ms", 1 << 30);
            settings.put("default.api.timeout.ms", 1 << 30);
            settings.put("retry.backoff.max.ms", backoff);
            boolean cooperative = settings.remove("cooperative").equals("true");
            ConsumerConfig config = new ConsumerConfig(settings);
            LogContext log = new LogContext();
            subscriptions = new SubscriptionState(log, AutoOffsetResetStrategy.LATEST);
            metadata = new ConsumerMetadata(0, 0, Long.MAX_VALUE, false, false, subscriptions, log, new ClusterResourceListeners());
            client = new ScriptClient(time, () -> {
                if (metadataOf().updateRequested())
                    update();
            });
            ConsumerPartitionAssignor assignor = cooperative ? new CooperativeStickyAssignor() : new RangeAssignor();
            consumer = new ClassicKafkaConsumer<>(log, time, config, new ByteArrayDeserializer(), new ByteArrayDeserializer(), client,
                subscriptions, metadata, List.of(assignor));
            network = (ConsumerNetworkClient) field(consumer, "client");
            coordinator = (ConsumerCoordinator) field(consumer, "coordinator");
            update();
        }

        private ConsumerMetadata metadataOf() {
            return metadata;
        }

        private static Object field(Object owner, String name) throws Exception {
            Field found = owner.getClass().getDeclaredField(name);
            found.setAccessible(true);
            return found.get(owner);
        }

        private void update() {
            MetadataResponseData data = new MetadataResponseData().setClusterId("c").setControllerId(1);
            data.brokers().add(new MetadataResponseData.MetadataResponseBroker().setNodeId(1).setHost("localhost").setPort(9092));
            topics.forEach((name, count) -> {
                MetadataResponseData.MetadataResponseTopic topic = new MetadataResponseData.MetadataResponseTopic().setName(name)
                    .setTopicId(new Uuid(1, name.charAt(0)));
                for (int p = 0; p < count; p++)
                    topic.partitions().add(new MetadataResponseData.MetadataResponsePartition().setPartitionIndex(p).setLeaderId(1)
                        .setLeaderEpoch(0).setReplicaNodes(List.of(1)).setIsrNodes(List.of(1)));
                data.topics().add(topic);
            });
            metadata.updateWithCurrentRequestVersion(new MetadataResponse(data, (short) 12), false, time.now);
        }

        void play(JsonNode step) throws Exception {
            if (step.get(0).asText().equals("close")) {
                client.answers = step.get(1);
                try {
                    consumer.close(CloseOptions.timeout(Duration.ofMillis(step.get(2).asLong())));
                } catch (RuntimeException wrong) {
                    told.put("error", name(wrong));
                }
                return;
            }
            synchronized (coordinator) {
                try {
                    step(step);
                } catch (RuntimeException wrong) {
                    told.put("error", name(wrong));
                }
                beat();
            }
        }

        private void step(JsonNode step) {
            switch (step.get(0).asText()) {
                case "subscribe" -> {
                    List<String> names = new ArrayList<>();
                    step.get(1).forEach(one -> names.add(one.asText()));
                    consumer.subscribe(names, this);
                }
                case "unsubscribe" -> consumer.unsubscribe();
                case "poll" -> {
                    // A poll without time sees what has failed, or was found, and the next one goes on.
                    for (int attempt = 0; attempt < POLLS; attempt++)
                        try {
                            consumer.poll(Duration.ZERO);
                        } catch (RuntimeException wrong) {
                            told.withArray("errors").add(name(wrong));
                        }
                }
                case "answer" -> {
                    client.answer(step.get(1).asInt(), step.get(2));
                    network.pollNoWakeup();
                }
                case "disconnect" -> {
                    client.disconnect(String.valueOf(Integer.MAX_VALUE - 1));
                    network.pollNoWakeup();
                }
                case "advance" -> time.now += step.get(1).asLong();
                case "partitions" -> {
                    topics.put(step.get(1).asText(), step.get(2).asInt());
                    update();
                }
                case "seek" -> {
                    TopicPartition one = partition(step.get(1));
                    if (subscriptions.isAssigned(one))
                        consumer.seek(one, step.get(2).asLong());
                }
                case "commit" -> consumer.commitAsync((offsets, wrong) -> {
                    ObjectNode done = commits.addObject();
                    if (wrong != null)
                        done.put("error", name(wrong));
                    else
                        offsets(done, offsets);
                });
                case "commit and wait" -> {
                    client.answers = step.get(1);
                    try {
                        consumer.commitSync(Duration.ofMillis(step.get(2).asLong()));
                    } finally {
                        client.answers = null;
                    }
                }
                default -> throw new IllegalArgumentException(step.toString());
            }
        }

        private static void offsets(ObjectNode told, Map<TopicPartition, OffsetAndMetadata> offsets) {
            Map<String, Long> all = new TreeMap<>();
            offsets.forEach((one, at) -> all.put(one.toString(), at.offset()));
            all.forEach(told::put);
        }

        /** The thread of heartbeats goes on until it waits again. Whoever holds the coordinator's lock calls. */
        private void beat() throws InterruptedException {
            Thread thread = coordinator.heartbeatThread();
            if (thread == null)
                return;
            if (time.now - waitsSince >= backoff)
                coordinator.notifyAll();
            boolean ran = false;
            while (thread.getState() != Thread.State.TIMED_WAITING && thread.getState() != Thread.State.WAITING
                    && thread.getState() != Thread.State.TERMINATED) {
                ran = true;
                coordinator.wait(1);
            }
            if (ran)
                waitsSince = time.now;
        }

        /** Ends the thread of a script that does not close its consumer. */
        void abandon() throws InterruptedException {
            Thread thread = coordinator.heartbeatThread();
            if (thread != null && thread.isAlive())
                coordinator.heartbeatThread().close();
        }

        private static String name(Throwable wrong) {
            if (wrong instanceof RetriableCommitFailedException && wrong.getCause() != null)
                return name(wrong.getCause());
            if (wrong instanceof CommitFailedException)
                return "COMMIT_FAILED";
            if (wrong instanceof DisconnectException)
                return Errors.NETWORK_EXCEPTION.name();
            Errors known = Errors.forException(wrong);
            if (known != Errors.UNKNOWN_SERVER_ERROR)
                return known.name();
            for (Errors one : Errors.values())
                if (one != Errors.NONE && String.valueOf(wrong.getMessage()).endsWith(one.message()))
                    return one.name();
            return wrong.toString();
        }

        private void call(String kind, Collection<TopicPartition> partitions) {
            ScriptClient.names(calls.addArray().add(kind).addArray(), partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            call("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            call("lost", partitions);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            call("assigned", partitions);
        }

        ObjectNode events() {
            ObjectNode events = told;
            told = JSON.createObjectNode();
            events.set("sent", client.sent.deepCopy());
            client.sent.removeAll();
            events.set("calls", calls.deepCopy());
            calls.removeAll();
            events.set("commits", commits.deepCopy());
            commits.removeAll();
            ScriptClient.names(events.putArray("assigned"), subscriptions.assignedPartitions());
            return events;
        }
    }
}
