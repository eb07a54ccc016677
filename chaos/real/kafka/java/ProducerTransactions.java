package org.apache.kafka.clients.producer.internals;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.clients.ApiVersions;
import org.apache.kafka.clients.ClientRequest;
import org.apache.kafka.clients.NodeApiVersions;
import org.apache.kafka.clients.ScriptedClient;
import org.apache.kafka.clients.ScriptedClient.ScriptTime;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TransactionAbortedException;
import org.apache.kafka.common.message.AddOffsetsToTxnResponseData;
import org.apache.kafka.common.message.AddPartitionsToTxnResponseData;
import org.apache.kafka.common.message.EndTxnResponseData;
import org.apache.kafka.common.message.FindCoordinatorResponseData;
import org.apache.kafka.common.message.InitProducerIdResponseData;
import org.apache.kafka.common.message.TxnOffsetCommitRequestData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.AddOffsetsToTxnRequest;
import org.apache.kafka.common.requests.AddOffsetsToTxnResponse;
import org.apache.kafka.common.requests.AddPartitionsToTxnRequest;
import org.apache.kafka.common.requests.AddPartitionsToTxnResponse;
import org.apache.kafka.common.requests.EndTxnRequest;
import org.apache.kafka.common.requests.EndTxnResponse;
import org.apache.kafka.common.requests.FindCoordinatorRequest;
import org.apache.kafka.common.requests.FindCoordinatorResponse;
import org.apache.kafka.common.requests.InitProducerIdRequest;
import org.apache.kafka.common.requests.InitProducerIdResponse;
import org.apache.kafka.common.requests.TxnOffsetCommitRequest;
import org.apache.kafka.common.requests.TxnOffsetCommitResponse;

/**
 * Plays scripts of transactions on Kafka's TransactionManager, Sender and accumulator, as Producers does without them.
 *
 * Calls are those that KafkaProducer makes on the application's thread. Waits between attempts take no time.
 */
public final class ProducerTransactions {
    private static final String ID = "id";

    public static void main(String[] arguments) throws Exception {
        ScriptedClient.serve(script -> {
            ApiVersions versions = new ApiVersions();
            for (int node = 1; node <= 3; node++)
                versions.update(String.valueOf(node), NodeApiVersions.create());
            TransactionManager manager = new TransactionManager(Producers.LOG, ID, 60000, 100, versions, false);
            return new Play(script, new Client(script.get("in_flight").asInt()), manager).all();
        });
    }

    /** The name of Kafka's error that an exception comes from. */
    private static String name(Throwable wrong) {
        if (wrong instanceof IllegalStateException)
            return "INVALID_TXN_STATE";
        if (wrong instanceof TransactionAbortedException)
            return "TRANSACTION_ABORTED";
        Errors known = Errors.forException(wrong);
        if (wrong.getCause() != null && (known == Errors.UNKNOWN_SERVER_ERROR || known == Errors.TRANSACTION_ABORTABLE))
            return name(wrong.getCause());
        if (known != Errors.UNKNOWN_SERVER_ERROR)
            return known.name();
        String message = String.valueOf(wrong.getMessage());
        for (Errors one : Errors.values())
            if (one != Errors.NONE && one != Errors.OPERATION_NOT_ATTEMPTED && (message.endsWith(one.message()) || message.contains("=" + one.name())))
                return one.name();
        return message;
    }

    /** Coordinators that answer when the script says so; produce requests have connections of their own. */
    private static final class Client extends Producers.ScriptClient {
        final Deque<ClientRequest> asked = new ArrayDeque<>();

        Client(int mostInFlight) {
            super(new ScriptTime(), mostInFlight);
        }

        @Override
        public boolean isReady(Node node, long now) {
            return true;
        }

        @Override
        public boolean ready(Node node, long now) {
            return of(node.idString()).size() < mostInFlight;
        }

        @Override
        public void send(ClientRequest request, long now) {
            AbstractRequest body = request.requestBuilder().build();
            ObjectNode told = Producers.JSON.createObjectNode().put("node", Integer.parseInt(request.destination()));
            if (!tell(told, body)) {
                super.send(request, now);
                return;
            }
            sent.add(told);
            asked.add(request);
        }

        private static boolean tell(ObjectNode told, AbstractRequest body) {
            if (body instanceof FindCoordinatorRequest find) {
                told.remove("node");
                told.put("api", "FindCoordinator").put("type", find.data().keyType()).put("key", find.data().coordinatorKeys().get(0));
            } else if (body instanceof InitProducerIdRequest init) {
                told.put("api", "InitProducerId").put("timeout", init.data().transactionTimeoutMs());
                told.put("producer", init.data().producerId()).put("epoch", init.data().producerEpoch());
            } else if (body instanceof AddPartitionsToTxnRequest add) {
                told.put("api", "AddPartitionsToTxn").put("producer", add.data().v3AndBelowProducerId())
                    .put("epoch", add.data().v3AndBelowProducerEpoch());
                ArrayNode partitions = told.putArray("partitions");
                new TreeSet<>(partitionsOf(add)).forEach(partitions::add);
            } else if (body instanceof AddOffsetsToTxnRequest add) {
                told.put("api", "AddOffsetsToTxn").put("producer", add.data().producerId()).put("epoch", add.data().producerEpoch());
                told.put("group", add.data().groupId());
            } else if (body instanceof TxnOffsetCommitRequest commit) {
                told.put("api", "TxnOffsetCommit").put("producer", commit.data().producerId()).put("epoch", commit.data().producerEpoch());
                told.put("group", commit.data().groupId()).put("generation", commit.data().generationId()).put("member", commit.data().memberId());
                ObjectNode offsets = told.putObject("offsets");
                new TreeMap<>(offsetsOf(commit)).forEach((p, one) -> offsets.put(String.valueOf(p), one));
            } else if (body instanceof EndTxnRequest end) {
                told.put("api", "EndTxn").put("producer", end.data().producerId()).put("epoch", end.data().producerEpoch());
                told.put("committed", end.data().committed());
            } else {
                return false;
            }
            return true;
        }

        private static List<Integer> partitionsOf(AddPartitionsToTxnRequest add) {
            List<Integer> all = new ArrayList<>();
            add.data().v3AndBelowTopics().forEach(topic -> all.addAll(topic.partitions()));
            return all;
        }

        private static Map<Integer, Long> offsetsOf(TxnOffsetCommitRequest commit) {
            Map<Integer, Long> all = new HashMap<>();
            for (TxnOffsetCommitRequestData.TxnOffsetCommitRequestTopic topic : commit.data().topics())
                topic.partitions().forEach(one -> all.put(one.partitionIndex(), one.committedOffset()));
            return all;
        }

        /** What a coordinator answers. A partial error is that of one partition. */
        static AbstractResponse answer(AbstractRequest body, Errors error, boolean partial, int epoch) {
            if (body instanceof FindCoordinatorRequest find) {
                FindCoordinatorResponseData.Coordinator one = new FindCoordinatorResponseData.Coordinator()
                    .setKey(find.data().coordinatorKeys().get(0)).setErrorCode(error.code()).setErrorMessage(error.message())
                    .setNodeId(error == Errors.NONE ? 1 + find.data().keyType() % 2 : -1).setHost("localhost").setPort(9092);
                return new FindCoordinatorResponse(new FindCoordinatorResponseData().setCoordinators(List.of(one)));
            }
            if (body instanceof InitProducerIdRequest)
                return new InitProducerIdResponse(new InitProducerIdResponseData().setErrorCode(error.code())
                    .setProducerId(error == Errors.NONE ? 1000 : -1).setProducerEpoch((short) (error == Errors.NONE ? epoch : -1)));
            if (body instanceof AddPartitionsToTxnRequest add) {
                Map<TopicPartition, Errors> errors = new HashMap<>();
                for (int p : new TreeSet<>(partitionsOf(add))) {
                    boolean first = errors.isEmpty();
                    Errors other = error == Errors.NONE ? Errors.NONE : Errors.OPERATION_NOT_ATTEMPTED;
                    errors.put(new TopicPartition(Producers.TOPIC, p), first || !partial ? error : other);
                }
                return new AddPartitionsToTxnResponse(new AddPartitionsToTxnResponseData().setResultsByTopicV3AndBelow(
                    AddPartitionsToTxnResponse.resultForTransaction("", errors).topicResults()));
            }
            if (body instanceof AddOffsetsToTxnRequest)
                return new AddOffsetsToTxnResponse(new AddOffsetsToTxnResponseData().setErrorCode(error.code()));
            if (body instanceof TxnOffsetCommitRequest commit) {
                Map<TopicPartition, Errors> errors = new HashMap<>();
                for (int p : new TreeSet<>(offsetsOf(commit).keySet()))
                    errors.put(new TopicPartition(Producers.TOPIC, p), errors.isEmpty() || !partial ? error : Errors.NONE);
                return new TxnOffsetCommitResponse(0, errors);
            }
            return new EndTxnResponse(new EndTxnResponseData().setErrorCode(error.code()));
        }
    }

    private static final class Play extends Producers.Play {
        private final TransactionManager manager;
        private final Client client;
        private final ArrayNode calls = Producers.JSON.createArrayNode();
        private final long mostMs;
        private String pending;
        private TransactionalRequestResult result;
        private long until;
        private int epochs = 0;

        Play(JsonNode script, Client client, TransactionManager manager) {
            super(script, client, manager);
            this.client = client;
            this.manager = manager;
            mostMs = script.get("max_block").asLong();
        }

        @Override
        void play(JsonNode step) throws Exception {
            switch (step.get(0).asText()) {
                case "init", "begin", "offsets", "commit", "abort" -> call(step);
                case "send in transaction" -> {
                    if (manager.hasError() || manager.hasOngoingTransaction() && !manager.isCompleting())
                        send(step.get(1).asInt(), step.get(2).asInt(), step.get(3).asInt());
                }
                case "told" -> told(step.get(1), step.get(2).asBoolean());
                case "lose" -> {
                    ClientRequest request = client.asked.poll();
                    if (request != null) {
                        client.respond(request, null, true);
                        client.poll(0, client.time.now);
                    }
                }
                default -> super.play(step);
            }
        }

        private void told(JsonNode errors, boolean partial) {
            ClientRequest request = client.asked.poll();
            if (request == null)
                return;
            AbstractRequest body = request.requestBuilder().build();
            String error = errors.path(body.apiKey().name).asText();
            Errors code = error.isEmpty() ? Errors.NONE : Errors.valueOf(error);
            client.respond(request, Client.answer(body, code, partial, epochs), false);
            if (body instanceof InitProducerIdRequest && code == Errors.NONE)
                epochs++;
            client.poll(0, client.time.now);
        }

        @SuppressWarnings("removal")
        private void call(JsonNode step) {
            if (pending != null)
                return;
            String kind = step.get(0).asText();
            try {
                if (kind.equals("begin")) {
                    manager.beginTransaction();
                    calls.addObject().put("call", kind);
                    return;
                }
                result = switch (kind) {
                    case "init" -> manager.initializeTransactions(false);
                    case "commit" -> manager.beginCommit();
                    case "abort" -> manager.beginAbort();
                    default -> manager.sendOffsetsToTransaction(offsets(step), new ConsumerGroupMetadata("g", 3, "m", Optional.empty()));
                };
                pending = kind;
                until = client.time.now + mostMs;
            } catch (RuntimeException wrong) {
                calls.addObject().put("call", kind).put("error", name(wrong));
            }
        }

        private static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode step) {
            Map<TopicPartition, OffsetAndMetadata> all = new HashMap<>();
            for (JsonNode one : step.get(1))
                all.put(new TopicPartition(Producers.TOPIC, one.get(0).asInt()), new OffsetAndMetadata(one.get(1).asLong()));
            return all;
        }

        @Override
        void send(int partition, int size, int id) throws Exception {
            super.send(partition, size, id);
            int at = partition < 0 ? 0 : partition;
            try {
                manager.maybeAddPartition(new TopicPartition(Producers.TOPIC, at));
            } catch (RuntimeException wrong) {
                calls.addObject().put("call", "send").put("error", name(wrong)).put("id", id);
            }
        }

        @Override
        String named(Exception wrong) {
            return name(wrong);
        }

        @Override
        void tellMore(ObjectNode told) {
            if (pending != null && result.isCompleted()) {
                ObjectNode done = calls.addObject().put("call", pending);
                try {
                    result.await(0, TimeUnit.MILLISECONDS, "");
                } catch (RuntimeException wrong) {
                    done.put("error", name(wrong));
                }
                pending = null;
            } else if (pending != null && client.time.now >= until) {
                calls.addObject().put("call", pending).put("error", "REQUEST_TIMED_OUT");
                pending = null;
            }
            told.set("calls", calls.deepCopy());
            calls.removeAll();
            told.put("state", manager.hasFatalError() ? "fatal" : manager.hasAbortableError() ? "abortable"
                : manager.isCompleting() ? "ending" : manager.isInitializing() ? "initializing" : manager.isReady() ? "ready" : "other");
        }
    }
}
