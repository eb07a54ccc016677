package org.apache.kafka.clients;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.function.Supplier;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;

import org.apache.kafka.common.Node;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.utils.Time;

/** Connections that are always there, to brokers that answer when a script says so. */
public abstract class ScriptedClient implements KafkaClient {
    public static final ObjectMapper JSON = new ObjectMapper();

    /** A clock that only the script moves. */
    public static class ScriptTime implements Time {
        public long now = 0;

        public long milliseconds() {
            return now;
        }

        public long nanoseconds() {
            return now * 1_000_000;
        }

        public void sleep(long ms) {
        }

        public void waitObject(Object obj, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    /** Answers a line of JSON with what is written as one. */
    public interface Player {
        Object answer(JsonNode line) throws Exception;
    }

    /** Answer the lines of standard input, one after the other; whatever else is printed goes to standard error. */
    public static void serve(Player player) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(JSON.writeValueAsString(player.answer(JSON.readTree(line))));
            out.flush();
        }
    }

    public final ScriptTime time;
    public final Deque<ClientResponse> ready = new ArrayDeque<>();
    /** The requests that were sent since the step before, as the script's other side reads them. */
    public final ArrayNode sent = JSON.createArrayNode();
    private int correlation = 0;

    protected ScriptedClient(ScriptTime time) {
        this.time = time;
    }

    public void respond(ClientRequest request, AbstractResponse body, boolean disconnected) {
        ready.add(new ClientResponse(request.makeHeader(request.requestBuilder().latestAllowedVersion()), request.callback(),
            request.destination(), request.createdTimeMs(), time.now, disconnected, null, null, body));
    }

    public List<ClientResponse> poll(long timeout, long now) {
        List<ClientResponse> done = new ArrayList<>(ready);
        ready.clear();
        done.forEach(ClientResponse::onComplete);
        return done;
    }

    public boolean isReady(Node node, long now) {
        return true;
    }

    public boolean ready(Node node, long now) {
        return isReady(node, now);
    }

    public long connectionDelay(Node node, long now) {
        return 0;
    }

    public long pollDelayMs(Node node, long now) {
        return 0;
    }

    public boolean connectionFailed(Node node) {
        return false;
    }

    public AuthenticationException authenticationException(Node node) {
        return null;
    }

    public void disconnect(String nodeId) {
    }

    public void close(String nodeId) {
    }

    public LeastLoadedNode leastLoadedNode(long now) {
        return new LeastLoadedNode(new Node(1, "localhost", 9092), true);
    }

    public boolean hasInFlightRequests() {
        return inFlightRequestCount() > 0;
    }

    public int inFlightRequestCount(String nodeId) {
        return 0;
    }

    public boolean hasInFlightRequests(String nodeId) {
        return inFlightRequestCount(nodeId) > 0;
    }

    public boolean hasReadyNodes(long now) {
        return true;
    }

    public void wakeup() {
    }

    public ClientRequest newClientRequest(String nodeId, AbstractRequest.Builder<?> builder, long created, boolean expect) {
        return newClientRequest(nodeId, builder, created, expect, 0, null);
    }

    public ClientRequest newClientRequest(String nodeId, AbstractRequest.Builder<?> builder, long created, boolean expect,
                                          int timeout, RequestCompletionHandler callback) {
        return new ClientRequest(nodeId, builder, correlation++, "script", created, expect, timeout, callback);
    }

    public void initiateClose() {
    }

    public boolean active() {
        return true;
    }

    public void close() {
    }
}
