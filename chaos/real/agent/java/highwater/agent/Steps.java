package highwater.agent;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * One line for each step, with the variables after it.
 *
 * <p>A step is written under the lock that makes it one, and before anybody else can see it. Kafka takes that lock inside the methods that
 * are watched, so the line is written at the next call within it: this thread's {@link Moment} says in the middle of what it is. A failure
 * of the agent is written down and never reaches the broker.
 */
public final class Steps {
  private static final class Moment {
    final String in;
    final Object partition;
    final Moment before;
    boolean told;
    boolean wasPending;
    Object params;
    Object asked;
    boolean counts;

    Moment(String in, Object partition, Moment before) {
      this.in = in;
      this.partition = partition;
      this.before = before;
    }
  }

  interface Body {
    void run();
  }

  private static final ThreadLocal<Moment> NOW = new ThreadLocal<>();
  private static final Map<Object, String> TOPICS = new ConcurrentHashMap<>();
  private static Set<String> watched = Set.of();

  private Steps() {}

  /** These topics alone; without a name all but Kafka's own. */
  static void watch(Set<String> topics) {
    watched = topics;
  }

  private static boolean watches(String topic) {
    return watched.isEmpty() ? !topic.startsWith("__") : watched.contains(topic);
  }

  static void noted(String where, Body body) {
    try {
      body.run();
    } catch (Throwable wrong) {
      Journal.problem(where, wrong);
    }
  }

  private static Line line(String event, Object name) {
    return new Line(event).with("p", name.toString());
  }

  /** The name of a partition, a log or a name itself, if it is watched. */
  private static Object nameOf(Object of) {
    Object name = Reader.get(of, "topicPartition");
    return watches((String) Reader.get(name, "topic")) ? name : null;
  }

  private static Line positions(Line line, Object log) {
    return log == null
        ? line
        : line.with("hw", Reader.number(log, "highWatermark")).with("end", Reader.number(log, "logEndOffset"));
  }

  private static Object logOf(Object partition) {
    return Reader.held(Reader.get(partition, "log"));
  }

  // In the middle of what this thread is

  public static Object enter(String in, Object partition) {
    Moment before = NOW.get();
    NOW.set(new Moment(in, partition, before));
    return before;
  }

  public static void leave(Object before) {
    if (before == null) NOW.remove();
    else NOW.set((Moment) before);
  }

  private static Moment within(String in) {
    Moment now = NOW.get();
    return now != null && now.in.equals(in) ? now : null;
  }

  // Roles

  public static void changing(Object partition) {
    Moment now = NOW.get();
    if (now == null || now.partition != partition) return;
    noted("changing", () -> now.wasPending = Reader.flag(Reader.get(partition, "partitionState"), "isInflight"));
  }

  public static void followed(Object partition) {
    Moment now = within("follower");
    if (now != null && now.partition == partition && !now.told) role(now);
  }

  /** Before a leader looks whether its high watermark moves, which each role and each answer ends with. */
  public static Object commits(Object partition) {
    Moment now = NOW.get();
    boolean role = now != null && (now.in.equals("leader") || now.in.equals("answer"));
    if (role && now.partition == partition && !now.told) role(now);
    NOW.set(new Moment("mark", partition, now));
    return now;
  }

  private static void role(Moment now) {
    now.told = true;
    noted(
        now.in,
        () -> {
          Object name = nameOf(now.partition), state = Reader.get(now.partition, "partitionState");
          if (name == null) return;
          Object leader = Reader.held(Reader.get(now.partition, "leaderReplicaIdOpt"));
          Line line =
              line(now.in, name)
                  .with("epoch", Reader.number(now.partition, "getLeaderEpoch"))
                  .with("pe", Reader.number(now.partition, "getPartitionEpoch"))
                  .with("isr", Reader.items(Reader.get(state, "isr")))
                  .with("lead", leader == null ? -1 : ((Number) leader).longValue())
                  .with("pending", Reader.flag(state, "isInflight"))
                  .with("was", now.wasPending);
          Journal.write(positions(line, logOf(now.partition)));
        });
  }

  public static void loaded(Object partition, Object log) {
    noted(
        "loaded",
        () -> {
          Object name = nameOf(partition);
          if (name != null) Journal.write(positions(line("loaded", name), log));
        });
  }

  // Logs

  public static void endMoves(Object log, long end) {
    Moment now = within("append");
    if (now == null || TransactionSteps.endMoves(log, end)) return;
    noted(
        "write",
        () -> {
          Object name = nameOf(log);
          long old = Reader.number(log, "logEndOffset");
          if (name == null || end <= old) return;
          Journal.write(
              line("write", name)
                  .with("epoch", Reader.number(now.partition, "getLeaderEpoch"))
                  .with("old", old)
                  .with("end", end));
        });
  }

  public static void markMoves(Object log, Object mark) {
    if (within("mark") == null) return;
    noted(
        "hw",
        () -> {
          Object name = nameOf(log);
          long old = Reader.number(log, "highWatermark"), to = Reader.number(mark, "messageOffset");
          if (name == null || to == old) return;
          Journal.write(
              line("hw", name).with("old", old).with("hw", to).with("end", Reader.number(log, "logEndOffset")));
        });
  }

  public static void truncated(Object partition, long to) {
    noted(
        "truncated",
        () -> {
          Object name = nameOf(partition);
          if (name != null) Journal.write(positions(line("truncated", name).with("to", to), logOf(partition)));
        });
  }

  public static void begunAnew(Object partition, long at) {
    noted(
        "begun",
        () -> {
          Object name = nameOf(partition);
          if (name != null) Journal.write(positions(line("begun", name).with("to", at), logOf(partition)));
        });
  }

  // Fetches

  public static Object fetched(Object partition, Object params, Object asked, boolean counts) {
    Moment before = NOW.get(), now = new Moment("fetch", partition, before);
    now.params = params;
    now.asked = asked;
    now.counts = counts;
    NOW.set(now);
    return before;
  }

  /** The leader has read for a fetch, and holds its lock for reading. */
  public static void read(Object read) {
    Moment now = within("fetch");
    if (now == null || read == null) return;
    noted(
        "read",
        () -> {
          Object name = nameOf(now.partition);
          if (name == null || !Reader.flag(now.params, "isFromFollower")) return;
          Journal.write(
              fetch("read", name, now)
                  .with("hw", Reader.number(read, "highWatermark"))
                  .with("end", Reader.number(read, "logEndOffset"))
                  .with("counts", now.counts)
                  .with("div", Reader.held(Reader.get(read, "divergingEpoch")) != null));
        });
  }

  private static Line fetch(String event, Object name, Moment now) {
    Object epoch = Reader.held(Reader.get(now.asked, "currentLeaderEpoch"));
    return line(event, name)
        .with("f", Reader.number(now.params, "replicaId"))
        .with("be", Reader.number(now.params, "replicaEpoch"))
        .with("epoch", epoch == null ? -1 : ((Number) epoch).longValue())
        .with("off", Reader.number(now.asked, "fetchOffset"));
  }

  /** Before the leader's knowledge of the follower is replaced. */
  public static void heard(Object end) {
    Moment now = within("fetch");
    if (now == null) return;
    noted(
        "heard",
        () -> {
          Object name = nameOf(now.partition);
          if (name == null) return;
          Journal.write(
              fetch("heard", name, now)
                  .with("at", Reader.number(end, "messageOffset"))
                  .with("now", Reader.number(now.partition, "getLeaderEpoch")));
        });
  }

  public static void taken(Object fetcher, Object name, long from) {
    noted(
        "taken",
        () -> {
          if (!watches((String) Reader.get(name, "topic"))) return;
          Object log = Reader.call(Reader.get(fetcher, "replicaMgr"), "localLogOrException", name);
          Journal.write(positions(line("taken", name).with("off", from), log));
        });
  }

  // The ISR

  public static void asked(Object partition, Object change) {
    noted(
        "asked",
        () -> {
          Object name = nameOf(partition);
          if (name == null) return;
          Object sent = Reader.get(change, "sentLeaderAndIsr");
          List<String> members = members(Reader.items(Reader.get(sent, "isrWithBrokerEpoch")));
          Journal.write(
              line("asked", name)
                  .with("epoch", Reader.number(sent, "leaderEpoch"))
                  .with("pe", Reader.number(sent, "partitionEpoch"))
                  .with("members", members));
        });
  }

  /** Pairs of a broker and the broker epoch by which it was heard. */
  private static List<String> members(List<Object> states) {
    List<String> pairs = new ArrayList<>();
    for (Object one : states)
      pairs.add("[" + Reader.number(one, "brokerId") + "," + Reader.number(one, "brokerEpoch") + "]");
    return pairs;
  }

  public static void refused(Object partition, Object error) {
    noted(
        "refused",
        () -> {
          Object name = nameOf(partition);
          if (name == null) return;
          boolean pending = Reader.flag(Reader.get(partition, "partitionState"), "isInflight");
          Journal.write(line("refused", name).with("error", error.toString()).with("pending", pending));
        });
  }

  // The controller

  public static void topic(Object record) {
    noted(
        "topic",
        () -> {
          Object id = Reader.get(record, "topicId");
          String name = (String) Reader.get(record, "name");
          TOPICS.put(id, name);
          if (!name.startsWith("__")) Journal.write(new Line("topic").with("topic", name).with("id", id.toString()));
        });
  }

  private static String subject(Object topicId, Object partition) {
    String topic = TOPICS.get(topicId);
    return topic == null || !watches(topic) ? null : topic + "-" + partition;
  }

  private static String subject(Object record) {
    return subject(Reader.get(record, "topicId"), Reader.get(record, "partitionId"));
  }

  public static void removed(Object record) {
    noted(
        "removed",
        () -> {
          Object id = Reader.get(record, "topicId");
          String topic = TOPICS.get(id);
          if (topic != null && !topic.startsWith("__"))
            Journal.write(new Line("removed").with("topic", topic).with("id", id.toString()));
        });
  }

  public static void created(Object record) {
    noted(
        "created",
        () -> {
          String name = subject(record);
          if (name != null) Journal.write(decision("created", name, record, record));
        });
  }

  public static void changed(Object manager, Object record) {
    noted(
        "changed",
        () -> {
          String name = subject(record);
          if (name == null) return;
          Object now =
              Reader.call(manager, "getPartition", Reader.get(record, "topicId"), Reader.get(record, "partitionId"));
          Journal.write(decision("changed", name, record, now).with("elr", Reader.items(Reader.get(now, "elr"))));
        });
  }

  /** The id of the topic says of which life a line is that a controller reads again. */
  private static Line decision(String event, String name, Object record, Object of) {
    return line(event, name)
        .with("id", Reader.get(record, "topicId").toString())
        .with("lead", Reader.number(of, "leader"))
        .with("epoch", Reader.number(of, "leaderEpoch"))
        .with("pe", Reader.number(of, "partitionEpoch"))
        .with("isr", Reader.items(Reader.get(of, "isr")))
        .with("replicas", Reader.items(Reader.get(of, "replicas")));
  }

  public static void alter(Object manager, Object request, Object result) {
    noted(
        "alter",
        () -> {
          List<Object> asked = Reader.items(Reader.get(request, "topics"));
          List<Object> said = Reader.items(Reader.get(Reader.get(result, "response"), "topics"));
          for (int i = 0; i < asked.size(); i++) {
            Object topicId = Reader.get(asked.get(i), "topicId");
            List<Object> those = Reader.items(Reader.get(asked.get(i), "partitions"));
            List<Object> answers = Reader.items(Reader.get(said.get(i), "partitions"));
            for (int j = 0; j < those.size(); j++)
              altered(manager, topicId, Reader.number(request, "brokerId"), those.get(j), answers.get(j));
          }
        });
  }

  private static void altered(Object manager, Object topicId, long by, Object asked, Object said) {
    Object partition = Reader.get(asked, "partitionIndex");
    String name = subject(topicId, partition);
    if (name == null) return;
    Object cluster = Reader.get(manager, "clusterControl");
    List<Object> active = new ArrayList<>();
    Object registration = Reader.call(manager, "getPartition", topicId, partition);
    if (registration == null) return; // its topic was deleted
    for (Object broker : Reader.items(Reader.get(registration, "replicas")))
      if ((Boolean) Reader.call(cluster, "isActive", broker)) active.add(broker);
    Journal.write(
        line("alter", name)
            .with("by", by)
            .with("epoch", Reader.number(asked, "leaderEpoch"))
            .with("pe", Reader.number(asked, "partitionEpoch"))
            .with("members", members(Reader.items(Reader.get(asked, "newIsrWithEpochs"))))
            .with("error", Reader.number(said, "errorCode"))
            .with("lead", Reader.number(said, "leaderId"))
            .with("newEpoch", Reader.number(said, "leaderEpoch"))
            .with("newPe", Reader.number(said, "partitionEpoch"))
            .with("isr", Reader.items(Reader.get(said, "isr")))
            .with("active", active));
  }

  public static void registered(Object record) {
    noted(
        "registered",
        () ->
            Journal.write(
                new Line("registered")
                    .with("b", Reader.number(record, "brokerId"))
                    .with("be", Reader.number(record, "brokerEpoch"))
                    .with("inc", Reader.get(record, "incarnationId").toString())));
  }
}
