package highwater.agent;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * One line for each step of a transactional id at its coordinator: what it is asked and answers, its records and their effect, what a
 * coordinator loads, and the markers that are written or skipped.
 *
 * <p>A request has no lock of its own, so it has two lines. A record is written down where the log's end moves, and its effect under the
 * lock of the transaction.
 */
public final class TransactionSteps {
  private static final String TOPIC = "__transaction_state";
  private static final String FENCE = "PREPAREEPOCHFENCE";

  /** The request, or the look for what has timed out, that this thread works on. */
  private record Request(String api, long number) {}

  /** The record that this thread writes. */
  private record Append(String id, int coordinatorEpoch, Object metadata, Append before) {}

  private static final ThreadLocal<Request> REQUEST = new ThreadLocal<>();
  private static final ThreadLocal<Append> APPEND = new ThreadLocal<>();
  private static final ThreadLocal<Boolean> COMPLETES = new ThreadLocal<>();
  private static final ThreadLocal<Boolean> SKIPS = new ThreadLocal<>();
  private static final AtomicLong REQUESTS = new AtomicLong();
  private static final Map<Long, Object> PARTITIONS = new ConcurrentHashMap<>();
  private static volatile Object manager;

  private TransactionSteps() {}

  // Requests

  public static Object current() {
    return REQUEST.get();
  }

  public static void leave(Object before) {
    if (before == null) REQUEST.remove();
    else REQUEST.set((Request) before);
  }

  public static void looksForTimeouts() {
    REQUEST.set(new Request("timeout", -1));
  }

  /** The arguments of the request, with a callback that writes the answer down before anybody has it. */
  public static Object[] asked(String method, Object coordinator, Object[] arguments) {
    Object[] changed = arguments.clone();
    Steps.noted(
        method,
        () -> {
          String id = (String) arguments[0];
          if (id == null || id.isEmpty()) return;
          manager = Reader.get(coordinator, "txnManager");
          Request request = new Request(api(method), REQUESTS.getAndIncrement());
          REQUEST.set(request);
          Line line = new Line("txnAsk").with("x", id).with("r", request.number).with("api", request.api);
          switch (request.api) {
            case "init" -> expected(line, arguments);
            case "add" -> named(line, arguments).with("parts", names(arguments[3]));
            default -> named(line, arguments).with("commit", arguments[3].toString().equals("COMMIT"));
          }
          Journal.write(line.with("hw", highWatermark(id)));
          for (int i = 1; i < changed.length; i++) {
            Class<?> type = function(changed[i]);
            if (type != null) changed[i] = answering(type, changed[i], id, request);
          }
        });
    return changed;
  }

  private static String api(String method) {
    if (method.equals("handleInitProducerId")) return "init";
    return method.equals("handleEndTransaction") ? "end" : "add";
  }

  private static Line named(Line line, Object[] arguments) {
    return line.with("pid", ((Number) arguments[1]).longValue()).with("pe", ((Number) arguments[2]).longValue());
  }

  private static void expected(Line line, Object[] arguments) {
    Object named = null;
    for (Object one : arguments) {
      if (one != null && one.getClass().getName().equals("scala.Some")) named = Reader.held(one);
    }
    line.with("pid", named == null ? -1 : Reader.number(named, "producerId"))
        .with("pe", named == null ? -1 : Reader.number(named, "epoch"));
  }

  /** Which of Scala's function types this is an instance of, or null. */
  private static Class<?> function(Object one) {
    if (one == null) return null;
    for (Class<?> type : one.getClass().getInterfaces()) {
      if (type.getName().matches("scala\\.Function[13]")) return type;
    }
    return null;
  }

  private static Object answering(Class<?> type, Object callback, String id, Request request) {
    return Proxy.newProxyInstance(
        type.getClassLoader(),
        new Class<?>[] {type},
        (proxy, method, given) -> {
          if (method.getName().equals("apply")) answered(id, request, given);
          try {
            return method.invoke(callback, given);
          } catch (InvocationTargetException thrown) {
            throw thrown.getCause();
          }
        });
  }

  private static void answered(String id, Request request, Object[] given) {
    Steps.noted(
        "answered",
        () -> {
          boolean whole = request.api.equals("init");
          Object error = whole ? Reader.get(given[0], "error") : given[0];
          Line line =
              new Line("txnAnswer").with("x", id).with("r", request.number).with("error", error.toString());
          if (whole) {
            line.with("pid", Reader.number(given[0], "producerId")).with("pe", Reader.number(given[0], "producerEpoch"));
          } else if (given.length > 2) {
            line.with("pid", ((Number) given[1]).longValue()).with("pe", ((Number) given[2]).longValue());
          }
          Journal.write(line.with("hw", highWatermark(id)));
        });
  }

  // Records

  public static void appends(Object of, String id, int coordinatorEpoch, Object metadata) {
    manager = of;
    APPEND.set(new Append(id, coordinatorEpoch, metadata, APPEND.get()));
  }

  public static void appendEnds() {
    Append now = APPEND.get();
    if (now == null || now.before == null) APPEND.remove();
    else APPEND.set(now.before);
  }

  /** Before the end of a log moves; true if that is a coordinator's. */
  static boolean endMoves(Object log, long end) {
    Append now = APPEND.get();
    if (now == null || !Reader.get(Reader.get(log, "topicPartition"), "topic").equals(TOPIC)) return false;
    Steps.noted(
        "txnAppend",
        () -> {
          Request request = REQUEST.get();
          Line line =
              new Line("txnAppend")
                  .with("x", now.id)
                  .with("sp", Reader.number(Reader.get(log, "topicPartition"), "partition"))
                  .with("ce", now.coordinatorEpoch)
                  .with("off", Reader.number(log, "logEndOffset"))
                  .with("by", request == null ? "" : request.api)
                  .with("r", request == null ? -1 : request.number);
          Journal.write(
              state(line, now.metadata, "txnState").with("end", end).with("hw", highWatermark(now.id)));
        });
    return true;
  }

  public static void completes() {
    COMPLETES.set(true);
  }

  public static void completed(Object metadata, boolean done) {
    COMPLETES.remove();
    if (!done) return;
    Steps.noted(
        "txnState",
        () -> {
          String id = (String) Reader.get(metadata, "transactionalId");
          Journal.write(state(new Line("txnState").with("x", id), metadata, "state").with("hw", highWatermark(id)));
        });
  }

  /** A change that is under way is given up, as its record could not be written. */
  public static void givesUp(Object metadata, Object pending) {
    if (COMPLETES.get() != null || Reader.held(pending) != null) return;
    Steps.noted(
        "txnGaveUp",
        () -> {
          Object was = Reader.held(Reader.get(metadata, "pendingState"));
          if (was == null || was.toString().toUpperCase().replace("_", "").equals(FENCE)) return;
          String id = (String) Reader.get(metadata, "transactionalId");
          Journal.write(new Line("txnGaveUp").with("x", id).with("state", was.toString()).with("hw", highWatermark(id)));
        });
  }

  private static Line state(Line line, Object of, String state) {
    boolean later = Reader.has(of, "clientTransactionVersion");
    return line.with("state", Reader.get(of, state).toString())
        .with("pid", Reader.number(of, "producerId"))
        .with("pe", Reader.number(of, "producerEpoch"))
        .with("lpe", Reader.number(of, "lastProducerEpoch"))
        .with("next", later ? Reader.number(of, "nextProducerId") : -1)
        .with("v2", later && Reader.flag(Reader.get(of, "clientTransactionVersion"), "supportsEpochBump"))
        .with("parts", names(Reader.get(of, "topicPartitions")));
  }

  private static List<String> names(Object partitions) {
    List<String> names = new ArrayList<>();
    for (Object one : Reader.items(partitions)) names.add('"' + one.toString() + '"');
    names.sort(null);
    return names;
  }

  // Loads

  /** A coordinator serves with what it has loaded: nobody is let in before this is written. */
  public static void serves(Object of, int partition, int coordinatorEpoch, Object loaded) {
    manager = of;
    Steps.noted(
        "txnLoad",
        () -> {
          List<Object> all = Reader.items(Reader.get(loaded, "values"));
          Object log = log(partition);
          Journal.write(
              at(new Line("txnLoad"), partition, coordinatorEpoch)
                  .with("hw", log == null ? -1 : Reader.number(log, "highWatermark"))
                  .with("end", log == null ? -1 : Reader.number(log, "logEndOffset"))
                  .with("ids", all.size()));
          for (Object metadata : all) {
            String id = (String) Reader.get(metadata, "transactionalId");
            Journal.write(
                state(at(new Line("txnLoaded").with("x", id), partition, coordinatorEpoch), metadata, "state"));
          }
        });
  }

  private static Line at(Line line, int partition, int coordinatorEpoch) {
    return line.with("sp", partition).with("ce", coordinatorEpoch);
  }

  // Markers

  public static void skips() {
    SKIPS.set(true);
  }

  public static void skipped() {
    SKIPS.remove();
  }

  public static void marked(Object metadata, Object partition) {
    Steps.noted(
        "txnMarker",
        () -> {
          String id = (String) Reader.get(metadata, "transactionalId");
          List<String> left = names(Reader.get(metadata, "topicPartitions"));
          left.remove('"' + partition.toString() + '"');
          Journal.write(
              new Line("txnMarker")
                  .with("x", id)
                  .with("part", partition.toString())
                  .with("left", left)
                  .with("skip", SKIPS.get() != null)
                  .with("hw", highWatermark(id)));
        });
  }

  // The log of a coordinator

  private static long highWatermark(String id) {
    Object log = log(((Number) Reader.call(manager, "partitionFor", id)).longValue());
    return log == null ? -1 : Reader.number(log, "highWatermark");
  }

  private static Object log(long partition) {
    Object name = PARTITIONS.computeIfAbsent(partition, TransactionSteps::named);
    return Reader.held(Reader.call(Reader.get(manager, "replicaManager"), "getLog", name));
  }

  private static Object named(long partition) {
    try {
      Class<?> type = manager.getClass().getClassLoader().loadClass("org.apache.kafka.common.TopicPartition");
      return type.getConstructor(String.class, int.class).newInstance(TOPIC, (int) partition);
    } catch (ReflectiveOperationException wrong) {
      throw new IllegalStateException(wrong);
    }
  }
}
