package org.apache.kafka.clients.consumer.internals;

import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.IntStream;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.ApiVersions;
import org.apache.kafka.clients.ClientRequest;
import org.apache.kafka.clients.ClientResponse;
import org.apache.kafka.clients.NodeApiVersions;
import org.apache.kafka.clients.ScriptedClient;
import org.apache.kafka.clients.ScriptedClient.ScriptTime;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.LogTruncationException;
import org.apache.kafka.clients.consumer.NoOffsetForPartitionException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.internals.ClusterResourceListeners;
import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.ListOffsetsRequestData;
import org.apache.kafka.common.message.ListOffsetsResponseData;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.message.OffsetForLeaderEpochRequestData;
import org.apache.kafka.common.message.OffsetForLeaderEpochResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.FetchRequest;
import org.apache.kafka.common.requests.FetchResponse;
import org.apache.kafka.common.requests.ListOffsetsRequest;
import org.apache.kafka.common.requests.ListOffsetsResponse;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.requests.OffsetsForLeaderEpochRequest;
import org.apache.kafka.common.requests.OffsetsForLeaderEpochResponse;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.LogContext;

/**
 * Plays steps on Kafka's consumer: its positions, its fetcher and its buffers.
 *
 * A step is a line of JSON on standard input, and its events are one on standard output. Whoever writes the steps
 * answers the requests, whose brokers are always there; the clock is the script's.
 */
public final class Consumers {
    private static final ObjectMapper JSON = ScriptedClient.JSON;
    private static final String TOPIC = "t";
    private static final Uuid TOPIC_ID = new Uuid(1, 1);

    private static Play play = null;

    public static void main(String[] arguments) throws Exception {
        ScriptedClient.serve(step -> {
            if (step.get(0).asText().equals("new"))
                play = new Play(step.get(1));
            else
                play.play(step);
            return play.events();
        });
    }

    /** Brokers that are always there; metadata is always new. */
    private static final class ScriptClient extends ScriptedClient {
        final Runnable refresh;
        final Map<Integer, ClientRequest> asked = new LinkedHashMap<>();

        ScriptClient(ScriptTime time, Runnable refresh) {
            super(time);
            this.refresh = refresh;
        }

        public void send(ClientRequest request, long now) {
            ObjectNode told = sent.addObject().put("id", request.correlationId()).put("node", Integer.parseInt(request.destination()));
            AbstractRequest body = request.requestBuilder().build();
            told.put("api", body.apiKey().name);
            tell(told.putObject("partitions"), body);
            asked.put(request.correlationId(), request);
        }

        private static void tell(ObjectNode told, AbstractRequest body) {
            if (body instanceof FetchRequest fetch)
                for (FetchRequestData.FetchTopic topic : fetch.data().topics())
                    topic.partitions().forEach(one -> told.putArray(String.valueOf(one.partition())).add(one.fetchOffset()).add(one.currentLeaderEpoch()));
            else if (body instanceof ListOffsetsRequest list)
                for (ListOffsetsRequestData.ListOffsetsTopic topic : list.data().topics())
                    topic.partitions().forEach(one -> told.putArray(String.valueOf(one.partitionIndex())).add(one.timestamp()));
            else
                for (OffsetForLeaderEpochRequestData.OffsetForLeaderTopic topic : ((OffsetsForLeaderEpochRequest) body).data().topics())
                    topic.partitions().forEach(one -> told.putArray(String.valueOf(one.partition())).add(one.currentLeaderEpoch()).add(one.leaderEpoch()));
        }

        void answer(int id, JsonNode partitions) {
            ClientRequest request = asked.remove(id);
            AbstractResponse body = partitions.isNull() ? null : response(request.requestBuilder().build(), partitions);
            respond(request, body, body == null);
        }

        private static AbstractResponse response(AbstractRequest request, JsonNode partitions) {
            if (request instanceof FetchRequest) {
                FetchResponseData.FetchableTopicResponse topic = new FetchResponseData.FetchableTopicResponse().setTopic(TOPIC).setTopicId(TOPIC_ID);
                partitions.properties().forEach(one -> topic.partitions().add(fetched(Integer.parseInt(one.getKey()), one.getValue())));
                return FetchResponse.of(new FetchResponseData().setResponses(List.of(topic)));
            }
            if (request instanceof ListOffsetsRequest) {
                ListOffsetsResponseData.ListOffsetsTopicResponse topic = new ListOffsetsResponseData.ListOffsetsTopicResponse().setName(TOPIC);
                partitions.properties().forEach(one -> topic.partitions().add(new ListOffsetsResponseData.ListOffsetsPartitionResponse()
                    .setPartitionIndex(Integer.parseInt(one.getKey())).setErrorCode(error(one.getValue()).code())
                    .setOffset(one.getValue().get("offset").asLong()).setLeaderEpoch(one.getValue().get("epoch").asInt()).setTimestamp(-1)));
                return new ListOffsetsResponse(new ListOffsetsResponseData().setTopics(List.of(topic)));
            }
            OffsetForLeaderEpochResponseData.OffsetForLeaderTopicResult topic =
                new OffsetForLeaderEpochResponseData.OffsetForLeaderTopicResult().setTopic(TOPIC);
            partitions.properties().forEach(one -> topic.partitions().add(new OffsetForLeaderEpochResponseData.EpochEndOffset()
                .setPartition(Integer.parseInt(one.getKey())).setErrorCode(error(one.getValue()).code())
                .setEndOffset(one.getValue().get("offset").asLong()).setLeaderEpoch(one.getValue().get("epoch").asInt())));
            OffsetForLeaderEpochResponseData data = new OffsetForLeaderEpochResponseData();
            data.topics().add(topic);
            return new OffsetsForLeaderEpochResponse(data);
        }

        private static Errors error(JsonNode answer) {
            return answer.path("error").asText().isEmpty() ? Errors.NONE : Errors.valueOf(answer.get("error").asText());
        }

        private static FetchResponseData.PartitionData fetched(int partition, JsonNode answer) {
            FetchResponseData.PartitionData data = new FetchResponseData.PartitionData().setPartitionIndex(partition)
                .setErrorCode(error(answer).code()).setHighWatermark(1000).setLastStableOffset(1000)
                .setPreferredReadReplica(answer.path("replica").asInt(-1)).setRecords(MemoryRecords.EMPTY);
            JsonNode records = answer.path("records");
            if (records.isEmpty())
                return data;
            MemoryRecordsBuilder batch = MemoryRecords.builder(ByteBuffer.allocate(1024), RecordBatch.CURRENT_MAGIC_VALUE, Compression.NONE,
                TimestampType.CREATE_TIME, records.get(0).get(0).asLong(), 0L, -1L, (short) -1, -1, false, records.get(0).get(1).asInt());
            for (JsonNode one : records)
                batch.appendWithOffset(one.get(0).asLong(), 0L, null, "v".getBytes(StandardCharsets.UTF_8));
            return data.setRecords(batch.build());
        }

        @Override
        public List<ClientResponse> poll(long timeout, long now) {
            refresh.run();
            return super.poll(timeout, now);
        }

        public int inFlightRequestCount() {
            return asked.size();
        }

        @Override
        public ClientRequest newClientRequest(String nodeId, AbstractRequest.Builder<?> builder, long created, boolean expect) {
            return newClientRequest(nodeId, builder, created, expect, 1 << 30, null);
        }
    }

    private static final class Play {
        final ScriptTime time = new ScriptTime();
        final Map<Integer, int[]> leaders = new TreeMap<>();
        final int nodes;
        final ConsumerMetadata metadata;
        final ScriptClient client;
        final SubscriptionState subscriptions;
        final ClassicKafkaConsumer<byte[], byte[]> consumer;
        final ConsumerNetworkClient network;
        ObjectNode told = JSON.createObjectNode();

        Play(JsonNode given) throws Exception {
            nodes = given.get("nodes").asInt();
            for (int p = 0; p < given.get("partitions").asInt(); p++)
                leaders.put(p, new int[] {1 + p % nodes, 0});
            Map<String, Object> settings = new HashMap<>();
            settings.put("bootstrap.servers", "localhost:9092");
            settings.put("key.deserializer", ByteArrayDeserializer.class);
            settings.put("value.deserializer", ByteArrayDeserializer.class);
            settings.put("auto.offset.reset", given.get("reset").asText());
            settings.put("max.poll.records", given.get("most").asInt());
            settings.put("enable.auto.commit", false);
            settings.put("retry.backoff.ms", 0);
            settings.put("retry.backoff.max.ms", 0);
            settings.put("request.timeout.ms", 1 << 30);
            ConsumerConfig config = new ConsumerConfig(settings);
            LogContext log = new LogContext();
            subscriptions = new SubscriptionState(log, AutoOffsetResetStrategy.fromString(given.get("reset").asText()));
            metadata = new ConsumerMetadata(0, 0, Long.MAX_VALUE, false, false, subscriptions, log, new ClusterResourceListeners());
            client = new ScriptClient(time, () -> {
                if (metadata.updateRequested())
                    update();
            });
            update();
            consumer = new ClassicKafkaConsumer<>(log, time, config, new ByteArrayDeserializer(), new ByteArrayDeserializer(), client,
                subscriptions, metadata, List.of());
            network = (ConsumerNetworkClient) field(consumer, "client");
            ApiVersions versions = (ApiVersions) field(field(consumer, "offsetFetcher"), "apiVersions");
            for (int n = 1; n <= nodes; n++)
                versions.update(String.valueOf(n), NodeApiVersions.create());
            List<TopicPartition> all = new ArrayList<>();
            leaders.keySet().forEach(p -> all.add(new TopicPartition(TOPIC, p)));
            consumer.assign(all);
            update();
        }

        private static Object field(Object owner, String name) throws Exception {
            Field found = owner.getClass().getDeclaredField(name);
            found.setAccessible(true);
            return found.get(owner);
        }

        private void update() {
            MetadataResponseData data = new MetadataResponseData().setClusterId("c").setControllerId(1);
            for (int n = 1; n <= nodes; n++)
                data.brokers().add(new MetadataResponseData.MetadataResponseBroker().setNodeId(n).setHost("localhost").setPort(9092 + n));
            List<Integer> all = IntStream.rangeClosed(1, nodes).boxed().toList();
            MetadataResponseData.MetadataResponseTopic topic = new MetadataResponseData.MetadataResponseTopic().setName(TOPIC).setTopicId(TOPIC_ID);
            leaders.forEach((p, one) -> topic.partitions().add(new MetadataResponseData.MetadataResponsePartition().setPartitionIndex(p)
                .setLeaderId(one[0]).setLeaderEpoch(one[1]).setReplicaNodes(all).setIsrNodes(all)));
            data.topics().add(topic);
            metadata.updateWithCurrentRequestVersion(new MetadataResponse(data, (short) 12), false, time.now);
        }

        void play(JsonNode step) {
            switch (step.get(0).asText()) {
                case "poll" -> poll();
                case "answer" -> {
                    client.answer(step.get(1).asInt(), step.get(2));
                    network.pollNoWakeup();
                }
                case "advance" -> time.now += step.get(1).asLong();
                case "leader" -> {
                    leaders.put(step.get(1).asInt(), new int[] {step.get(2).asInt(), step.get(3).asInt()});
                    update();
                }
                case "pause" -> consumer.pause(List.of(partition(step)));
                case "resume" -> consumer.resume(List.of(partition(step)));
                case "seek" -> {
                    Optional<Integer> epoch = step.get(3).asInt() < 0 ? Optional.empty() : Optional.of(step.get(3).asInt());
                    consumer.seek(partition(step), new OffsetAndMetadata(step.get(2).asLong(), epoch, ""));
                }
                case "beginning" -> consumer.seekToBeginning(List.of(partition(step)));
                case "end" -> consumer.seekToEnd(List.of(partition(step)));
                default -> throw new IllegalArgumentException(step.toString());
            }
        }

        private static TopicPartition partition(JsonNode step) {
            return new TopicPartition(TOPIC, step.get(1).asInt());
        }

        private void poll() {
            try {
                for (int attempt = 0; attempt < 3; attempt++) {
                    ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ZERO);
                    if (records.isEmpty())
                        continue;
                    ObjectNode returned = told.putObject("records");
                    for (TopicPartition one : records.partitions()) {
                        ArrayNode offsets = returned.putArray(String.valueOf(one.partition()));
                        for (ConsumerRecord<byte[], byte[]> record : records.records(one))
                            offsets.add(record.offset());
                    }
                    return;
                }
            } catch (LogTruncationException wrong) {
                told.put("error", "LOG_TRUNCATION");
            } catch (NoOffsetForPartitionException wrong) {
                told.put("error", "NO_OFFSET_FOR_PARTITION");
            } catch (OffsetOutOfRangeException wrong) {
                told.put("error", "OFFSET_OUT_OF_RANGE");
            } catch (RuntimeException wrong) {
                Errors known = Errors.forException(wrong);
                told.put("error", known == Errors.UNKNOWN_SERVER_ERROR ? wrong.toString() : known.name());
            }
        }

        ObjectNode events() {
            ObjectNode events = told;
            told = JSON.createObjectNode();
            events.set("sent", client.sent.deepCopy());
            client.sent.removeAll();
            ObjectNode positions = events.putObject("positions");
            for (int p : leaders.keySet()) {
                TopicPartition one = new TopicPartition(TOPIC, p);
                SubscriptionState.FetchPosition at = subscriptions.position(one);
                String state = subscriptions.isOffsetResetNeeded(one) ? "resetting" : subscriptions.awaitingValidation(one) ? "validating"
                    : subscriptions.hasValidPosition(one) ? "fetching" : "initializing";
                ArrayNode position = positions.putArray(String.valueOf(p)).add(state);
                if (at != null && !state.equals("resetting"))
                    position.add(at.offset).add(at.offsetEpoch.orElse(-1));
            }
            return events;
        }
    }
}
