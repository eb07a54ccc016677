package org.apache.kafka.clients.producer.internals;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.ApiVersions;
import org.apache.kafka.clients.ClientRequest;
import org.apache.kafka.clients.ScriptedClient;
import org.apache.kafka.clients.ScriptedClient.ScriptTime;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.internals.ClusterResourceListeners;
import org.apache.kafka.common.message.InitProducerIdResponseData;
import org.apache.kafka.common.message.MetadataResponseData;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponseBroker;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponsePartition;
import org.apache.kafka.common.message.MetadataResponseData.MetadataResponseTopic;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.message.ProduceResponseData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.InitProducerIdRequest;
import org.apache.kafka.common.requests.InitProducerIdResponse;
import org.apache.kafka.common.requests.MetadataResponse;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.ProduceResponse;
import org.apache.kafka.common.utils.LogContext;

/**
 * Plays scripts on the accumulator, the sender and the partitioner of Kafka's producer.
 *
 * A script is a line of JSON on standard input: settings, and steps. The answer is a line of JSON:
 * for each step the requests that were sent and the records that were completed. Brokers and the
 * clock are the script's own; whatever is random in the partitioner comes from a sequence that both
 * sides know.
 */
public final class Producers {
    static final ObjectMapper JSON = ScriptedClient.JSON;
    static final String TOPIC = "t";
    static final LogContext LOG = new LogContext();

    public static void main(String[] arguments) throws Exception {
        ScriptedClient.serve(script -> new Play(script).all());
    }

    /** Connections with so many requests in flight at the most. */
    static class ScriptClient extends ScriptedClient {
        final int mostInFlight;
        final Map<String, Deque<ClientRequest>> inFlight = new TreeMap<>();

        ScriptClient(ScriptTime time, int mostInFlight) {
            super(time);
            this.mostInFlight = mostInFlight;
        }

        Deque<ClientRequest> of(String node) {
            return inFlight.computeIfAbsent(node, key -> new ArrayDeque<>());
        }

        public void send(ClientRequest request, long now) {
            AbstractRequest body = request.requestBuilder().build();
            if (body instanceof InitProducerIdRequest) {
                InitProducerIdResponseData data = new InitProducerIdResponseData().setProducerId(1000).setProducerEpoch((short) 0);
                respond(request, new InitProducerIdResponse(data), false);
                return;
            }
            ObjectNode told = sent.addObject();
            told.put("node", Integer.parseInt(request.destination()));
            ArrayNode batches = told.putArray("batches");
            for (ProduceRequestData.TopicProduceData topic : ((ProduceRequest) body).data().topicData())
                for (ProduceRequestData.PartitionProduceData one : topic.partitionData())
                    tell(batches.addObject(), one.index(), (MemoryRecords) one.records());
            if (request.expectResponse())
                of(request.destination()).add(request);
            else
                respond(request, null, false);
        }

        static void tell(ObjectNode told, int partition, MemoryRecords records) {
            told.put("partition", partition);
            ArrayNode ids = told.putArray("records");
            for (RecordBatch batch : records.batches()) {
                told.put("epoch", batch.producerEpoch());
                told.put("sequence", batch.baseSequence());
                for (Record record : batch)
                    ids.add(record.value().getInt(record.value().position()));
            }
        }

        public boolean isReady(Node node, long now) {
            return of(node.idString()).size() < mostInFlight;
        }

        public int inFlightRequestCount() {
            return inFlight.values().stream().mapToInt(Deque::size).sum();
        }

        public int inFlightRequestCount(String nodeId) {
            return of(nodeId).size();
        }
    }

    /** The partitioner with random numbers that the script's other side knows, too. */
    private static final class ScriptPartitioner extends BuiltInPartitioner {
        private long state;

        ScriptPartitioner(String topic, int batchSize, long seed) {
            super(LOG, topic, batchSize);
            state = seed;
        }

        @Override
        int randomPartition() {
            state = (state * 1103515245L + 12345L) & 0x7fffffffL;
            return (int) state;
        }
    }

    static class Play {
        final JsonNode script;
        final ScriptTime time;
        final ScriptClient client;
        final ProducerMetadata metadata;
        final RecordAccumulator accumulator;
        final Sender sender;
        final ArrayNode completed = JSON.createArrayNode();
        final Map<Integer, Integer> leaders = new TreeMap<>();
        final Map<Integer, Integer> epochs = new HashMap<>();
        final int nodes;

        Play(JsonNode script) {
            this(script, new ScriptTime() {
                @Override
                public void sleep(long ms) {
                    now += ms;
                }
            });
        }

        private Play(JsonNode script, ScriptTime time) {
            this(script, new ScriptClient(time, script.get("in_flight").asInt()), script.get("idempotent").asBoolean()
                ? new TransactionManager(LOG, null, 60000, 100, new ApiVersions(), false) : null);
        }

        Play(JsonNode script, ScriptClient client, TransactionManager manager) {
            this.script = script;
            this.client = client;
            time = client.time;
            int inFlight = script.get("in_flight").asInt();
            int batchSize = script.get("batch_size").asInt();
            nodes = script.get("nodes").asInt();
            metadata = new ProducerMetadata(100, 100, Long.MAX_VALUE, Long.MAX_VALUE, LOG, new ClusterResourceListeners(), time);
            Metrics metrics = new Metrics(time);
            long seed = script.get("seed").asLong();
            accumulator = new RecordAccumulator(LOG, batchSize, Compression.NONE, script.get("linger").asInt(), 100, 100,
                script.get("delivery_timeout").asInt(), new RecordAccumulator.PartitionerConfig(true, 0), metrics, "g", time,
                manager, new BufferPool(1L << 26, batchSize, metrics, time, "g")) {
                @Override
                BuiltInPartitioner createBuiltInPartitioner(LogContext log, String topic, int size) {
                    return new ScriptPartitioner(topic, size, seed);
                }
            };
            sender = new Sender(LOG, client, metadata, accumulator, inFlight == 1, 1 << 20, (short) script.get("acks").asInt(),
                Integer.MAX_VALUE, new SenderMetricsRegistry(metrics), time, 1 << 30, 100, manager);
            for (int p = 0; p < script.get("partitions").asInt(); p++) {
                leaders.put(p, 1 + p % nodes);
                epochs.put(p, 0);
            }
            metadata.add(TOPIC, 0);
            update();
        }

        private void update() {
            MetadataResponseData data = new MetadataResponseData().setClusterId("c").setControllerId(1);
            for (int n = 1; n <= nodes; n++)
                data.brokers().add(new MetadataResponseBroker().setNodeId(n).setHost("localhost").setPort(9092 + n));
            MetadataResponseTopic topic = new MetadataResponseTopic().setName(TOPIC).setErrorCode((short) 0);
            leaders.forEach((p, node) -> topic.partitions().add(new MetadataResponsePartition().setPartitionIndex(p)
                .setErrorCode(node < 0 ? Errors.LEADER_NOT_AVAILABLE.code() : 0).setLeaderId(node).setLeaderEpoch(epochs.get(p))
                .setReplicaNodes(List.of(1)).setIsrNodes(List.of(1))));
            data.topics().add(topic);
            metadata.updateWithCurrentRequestVersion(new MetadataResponse(data, (short) 12), false, time.now);
        }

        ArrayNode all() throws Exception {
            ArrayNode answers = JSON.createArrayNode();
            settle();
            for (JsonNode step : script.get("steps")) {
                client.sent.removeAll();
                completed.removeAll();
                play(step);
                settle();
                ObjectNode told = answers.addObject();
                told.set("sent", client.sent.deepCopy());
                told.set("completed", completed.deepCopy());
                tellMore(told);
            }
            return answers;
        }

        String named(Exception wrong) {
            return Errors.forException(wrong).name();
        }

        /** What else a step has led to. */
        void tellMore(ObjectNode told) {
        }

        /** Until nothing happens any more without another step. */
        private void settle() {
            int quiet = 0;
            for (int pass = 0; pass < 200 && quiet < 4; pass++) {
                int before = client.sent.size() + completed.size() + client.ready.size();
                sender.runOnce();
                boolean same = client.sent.size() + completed.size() == before && client.ready.isEmpty();
                quiet = same ? quiet + 1 : 0;
            }
        }

        void play(JsonNode step) throws Exception {
            switch (step.get(0).asText()) {
                case "send" -> send(step.get(1).asInt(), step.get(2).asInt(), step.get(3).asInt());
                case "advance" -> time.now += step.get(1).asLong();
                case "answer" -> answer(step.get(1).asText(), step.get(2).asText(), step.get(3).asLong());
                case "disconnect" -> disconnect(step.get(1).asText());
                case "leader" -> {
                    leaders.put(step.get(1).asInt(), step.get(2).asInt());
                    epochs.merge(step.get(1).asInt(), 1, Integer::sum);
                    update();
                }
                default -> throw new IllegalArgumentException(step.toString());
            }
        }

        void send(int partition, int size, int id) throws Exception {
            byte[] value = ByteBuffer.allocate(size).putInt(id).array();
            RecordAccumulator.AppendCallbacks callbacks = new RecordAccumulator.AppendCallbacks() {
                public void setPartition(int chosen) {
                }

                public void onCompletion(RecordMetadata written, Exception wrong) {
                    ObjectNode told = completed.addObject().put("id", id);
                    if (wrong == null)
                        told.put("offset", written.offset());
                    else
                        told.put("error", named(wrong));
                }
            };
            accumulator.append(TOPIC, partition, 0L, null, value, Record.EMPTY_HEADERS, callbacks, 0, time.now, cluster());
        }

        /** The cluster with partitions in order: Kafka's own has them in that of a hash map. */
        private Cluster cluster() {
            Map<Integer, Node> all = new TreeMap<>();
            for (int n = 1; n <= nodes; n++)
                all.put(n, new Node(n, "localhost", 9092 + n));
            List<PartitionInfo> partitions = new ArrayList<>();
            leaders.forEach((p, n) -> partitions.add(new PartitionInfo(TOPIC, p, all.get(n), new Node[0], new Node[0])));
            return new Cluster("c", all.values(), partitions, Set.of(), Set.of());
        }

        private void answer(String node, String error, long offset) {
            ClientRequest request = client.of(node).poll();
            if (request == null)
                return;
            ProduceResponseData data = new ProduceResponseData();
            ProduceRequest body = (ProduceRequest) request.requestBuilder().build();
            Errors code = error.isEmpty() ? Errors.NONE : Errors.valueOf(error);
            for (ProduceRequestData.TopicProduceData topic : body.data().topicData()) {
                ProduceResponseData.TopicProduceResponse told = new ProduceResponseData.TopicProduceResponse()
                    .setName(topic.name()).setTopicId(topic.topicId());
                for (ProduceRequestData.PartitionProduceData one : topic.partitionData())
                    told.partitionResponses().add(new ProduceResponseData.PartitionProduceResponse().setIndex(one.index())
                        .setErrorCode(code.code()).setBaseOffset(code == Errors.NONE ? offset : -1).setLogAppendTimeMs(-1));
                data.responses().add(told);
            }
            client.respond(request, new ProduceResponse(data), false);
            client.poll(0, time.now); // nothing is sent in between, as with sockets
        }

        private void disconnect(String node) {
            Deque<ClientRequest> requests = client.of(node);
            while (!requests.isEmpty())
                client.respond(requests.poll(), null, true);
            client.poll(0, time.now);
        }
    }
}
