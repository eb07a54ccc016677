package highwater.agent;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * One line for each step of a consumer group (KIP-848) at its coordinator: what it is asked, what of the group changes by that, the batches
 * in which changes are written or given up, how far they are committed, and what a coordinator loads.
 *
 * <p>A coordinator runs one operation of a partition at a time. Its records change the memory at once and are written later, with those of
 * other operations: the line of an operation is written before its batch can be.
 */
public final class GroupSteps {
  private static final String TOPIC = "__consumer_offsets";

  /** What this thread works on, from the request or the timer to its records. */
  private static final class Operation {
    final String kind;
    final String group;
    String member = "";
    long epoch = -1;
    boolean isStatic;
    Object owned;
    /** The members that are given up, or the offsets that are asked for. */
    List<String> named = List.of();
    // While it appends
    Object context;
    List<Object> records = List.of();
    boolean replays;
    long from;
    int replayed;
    boolean written;

    Operation(String kind, String group) {
      this.kind = kind;
      this.group = group;
    }
  }

  private static final ThreadLocal<Operation> NOW = new ThreadLocal<>();
  /** Coordinators that serve, and the contexts that they are of: not those that load. */
  private static final Map<Object, Object> SERVING = new ConcurrentHashMap<>();

  private GroupSteps() {}

  // Requests and timers

  /** A heartbeat begins, to which all that follows on this thread belongs; false for another method of that name. */
  public static boolean asks(Object[] arguments) {
    if (arguments.length != 2) return false;
    Steps.noted(
        "groupAsks",
        () -> {
          Object request = arguments[1];
          Operation now = new Operation("heartbeat", (String) Reader.get(request, "groupId"));
          now.member = (String) Reader.get(request, "memberId");
          now.epoch = Reader.number(request, "memberEpoch");
          now.isStatic = Reader.get(request, "instanceId") != null;
          now.owned = Reader.get(request, "topicPartitions");
          NOW.set(now);
        });
    return true;
  }

  public static void commits(Object request) {
    Steps.noted(
        "groupCommits",
        () -> {
          Operation now = new Operation("commit", (String) Reader.get(request, "groupId"));
          now.member = (String) Reader.get(request, "memberId");
          now.epoch = Reader.number(request, "generationIdOrMemberEpoch");
          now.named = new ArrayList<>();
          for (Object topic : Reader.items(Reader.get(request, "topics")))
            for (Object one : Reader.items(Reader.get(topic, "partitions")))
              now.named.add(
                  offset(Reader.get(topic, "name"), Reader.get(one, "partitionIndex"), Reader.number(one, "committedOffset")));
          NOW.set(now);
        });
  }

  /** The operation is refused, or its records follow on this thread. */
  public static void answered(Object manager, Throwable refused) {
    if (refused == null) return;
    Operation now = NOW.get();
    NOW.remove();
    if (now == null) return;
    Steps.noted(
        "groupRefuses",
        () -> {
          Object groups = Reader.has(manager, "groups") ? manager : Reader.get(manager, "groupMetadataManager");
          Object group = ((Map<?, ?>) Reader.get(groups, "groups")).get(now.group);
          if (!isConsumers(group)) return;
          Journal.write(
              asked(new Line("groupRefused").with("g", now.group), now).with("error", refused.getClass().getSimpleName()));
        });
  }

  /** True if this is no part of another operation. */
  public static boolean fences(Object group, Object members) {
    if (NOW.get() != null) return false;
    Steps.noted(
        "groupFences",
        () -> {
          Operation now = new Operation("fence", (String) Reader.get(group, "groupId"));
          now.named = new ArrayList<>();
          for (Object one : Reader.items(members)) now.named.add(Line.quoted((String) Reader.get(one, "memberId")));
          NOW.set(now);
        });
    return true;
  }

  public static void fenced(Throwable thrown) {
    if (thrown != null) NOW.remove();
  }

  private static Line asked(Line line, Operation now) {
    line.with("op", now.kind);
    if (now.kind.equals("fence")) return line.with("members", now.named);
    line.with("m", now.member).with("e", now.epoch);
    if (now.kind.equals("commit")) return line.with("named", now.named);
    line.with("static", now.isStatic);
    return now.owned == null ? line : line.with("owns", owned(now.owned));
  }

  private static List<String> owned(Object topics) {
    List<String> found = new ArrayList<>();
    for (Object topic : Reader.items(topics))
      for (Object one : Reader.items(Reader.get(topic, "partitions"))) found.add(name(Reader.get(topic, "topicId"), one));
    return found;
  }

  private static String name(Object topic, Object partition) {
    return Line.quoted(topic + ":" + partition);
  }

  // Records

  public static Object appends(Object context, Object records, boolean replays) {
    Operation asked = NOW.get();
    if (!isOffsets(context)) return null;
    Operation now = asked == null ? new Operation("", "") : asked;
    NOW.set(now);
    now.context = context;
    now.records = Reader.items(records);
    now.replays = replays;
    Steps.noted("groupAppends", () -> now.from = end(context));
    return now;
  }

  /** Where the records of the next operation are to be. */
  private static long end(Object context) {
    Object batch = Reader.get(context, "currentBatch");
    return batch == null
        ? Reader.number(Reader.get(context, "coordinator"), "lastWrittenOffset")
        : Reader.number(batch, "nextOffset");
  }

  public static void replayed() {
    Operation now = NOW.get();
    if (now != null && now.context != null) now.replayed++;
  }

  /** Before a batch is written: with all of this operation's records, or a part of them. */
  public static void flushes() {
    Operation now = NOW.get();
    if (now == null || now.context == null || now.written || now.replayed == 0) return;
    if (now.replayed == now.records.size()) write(now);
    else
      Steps.noted(
          "groupOther",
          () -> {
            Journal.write(placed(new Line("groupOther"), now, false));
            now.from = end(now.context);
          });
  }

  public static void appended(Object operation, Throwable thrown) {
    if (operation == null) return;
    NOW.remove();
    Operation now = (Operation) operation;
    boolean whole = !now.replays || now.replayed == now.records.size();
    if (thrown == null && whole && !now.written) write(now);
  }

  private static void write(Operation now) {
    now.written = true;
    Steps.noted(
        "groupOp",
        () -> {
          Object coordinator = Reader.get(now.context, "coordinator");
          if (coordinator == null) return;
          Object shard = Reader.get(coordinator, "coordinator");
          Map<String, Changes> changes = new LinkedHashMap<>();
          if (!now.group.isEmpty()) changes.put(now.group, new Changes());
          for (Object record : now.records) {
            Object key = message(Reader.get(record, "key"));
            String group = groupOf(key);
            if (group != null) changes.computeIfAbsent(group, __ -> new Changes()).take(key, Reader.get(record, "value"));
          }
          Map<?, ?> groups = (Map<?, ?>) Reader.get(Reader.get(shard, "groupMetadataManager"), "groups");
          boolean told = false;
          for (var of : changes.entrySet()) {
            Object group = groups.get(of.getKey());
            if (!isConsumers(group) && !of.getValue().wasConsumers) continue;
            Line line = placed(new Line("groupOp"), now, told).with("g", of.getKey());
            if (of.getKey().equals(now.group)) asked(line, now);
            else line.with("op", "");
            Journal.write(of.getValue().told(line, of.getKey(), isConsumers(group) ? group : null, shard));
            told = true;
          }
          if (!told && !now.records.isEmpty()) Journal.write(placed(new Line("groupOther"), now, false));
        });
  }

  private static Line placed(Line line, Operation now, boolean again) {
    return at(line, now.context)
        .with("again", again)
        .with("records", now.records.size())
        .with("from", now.from)
        .with("off", end(now.context));
  }

  private static String groupOf(Object key) {
    if (Reader.has(key, "group")) return (String) Reader.get(key, "group");
    return Reader.has(key, "groupId") ? (String) Reader.get(key, "groupId") : null;
  }

  private static Object message(Object key) {
    return Reader.has(key, "message") ? Reader.get(key, "message") : key;
  }

  private static Line at(Line line, Object context) {
    return line.with("sp", Reader.number(Reader.get(context, "tp"), "partition")).with("ce", Reader.number(context, "epoch"));
  }

  private static boolean isOffsets(Object context) {
    return Reader.get(Reader.get(context, "tp"), "topic").equals(TOPIC);
  }

  private static boolean isConsumers(Object group) {
    return group != null && group.getClass().getSimpleName().equals("ConsumerGroup");
  }

  /** What an operation's records change of one group. */
  private static final class Changes {
    boolean wasConsumers;
    boolean gone;
    boolean becomesClassic;
    final Set<String> targets = new LinkedHashSet<>();
    final Set<String> members = new LinkedHashSet<>();
    final List<Object> committed = new ArrayList<>();

    void take(Object key, Object value) {
      switch (key.getClass().getSimpleName()) {
        case "ConsumerGroupMetadataKey" -> {
          wasConsumers = true;
          gone |= value == null;
        }
        case "ConsumerGroupMemberMetadataKey", "ConsumerGroupCurrentMemberAssignmentKey" -> {
          wasConsumers = true;
          members.add((String) Reader.get(key, "memberId"));
        }
        case "ConsumerGroupTargetAssignmentMemberKey" -> {
          wasConsumers = true;
          targets.add((String) Reader.get(key, "memberId"));
        }
        case "GroupMetadataKey" -> becomesClassic |= value != null;
        case "OffsetCommitKey" -> committed.add(key);
        default -> {}
      }
    }

    Line told(Line line, String id, Object group, Object shard) {
      line.with("gone", gone).with("classic", becomesClassic);
      List<String> offsets = new ArrayList<>();
      for (Object key : committed) {
        Object topic = Reader.get(key, "topic"), partition = Reader.get(key, "partition");
        offsets.add(offset(topic, partition, offset(offsetsOf(shard, id), topic, partition)));
      }
      if (!offsets.isEmpty()) line.with("committed", offsets);
      if (group == null) return line;
      epochs(line, group);
      Map<?, ?> all = (Map<?, ?>) Reader.get(group, "members");
      if (!members.isEmpty()) {
        List<String> told = new ArrayList<>();
        for (String one : members) told.add(member(group, one, all.get(one)));
        line.with("now", told);
      }
      if (!targets.isEmpty()) {
        Map<?, ?> target = (Map<?, ?>) Reader.get(group, "targetAssignment");
        List<String> told = new ArrayList<>();
        for (String one : targets) told.add(target(one, target.get(one)));
        line.with("targets", told);
      }
      return line;
    }
  }

  private static Line epochs(Line line, Object group) {
    return line.with("ge", Reader.number(group, "groupEpoch")).with("te", Reader.number(group, "assignmentEpoch"));
  }

  /** The offsets of a group, by topic and partition; null for none. */
  private static Map<?, ?> offsetsOf(Object shard, String group) {
    Object offsets = Reader.get(Reader.get(shard, "offsetMetadataManager"), "offsets");
    return (Map<?, ?>) ((Map<?, ?>) Reader.get(offsets, "offsetsByGroup")).get(group);
  }

  private static long offset(Map<?, ?> offsets, Object topic, Object partition) {
    Map<?, ?> those = offsets == null ? null : (Map<?, ?>) offsets.get(topic);
    Object one = those == null ? null : those.get(partition);
    return one == null ? -1 : Reader.number(one, "committedOffset");
  }

  private static String offset(Object topic, Object partition, long offset) {
    return "[" + name(topic, partition) + "," + offset + "]";
  }

  private static String target(String member, Object assignment) {
    List<String> parts = new ArrayList<>();
    if (assignment != null) parts(parts, Reader.get(assignment, "partitions"));
    return "{" + new Line().with("m", member).with("parts", parts) + "}";
  }

  /** Partitions by the ids of their topics: as pairs with the epoch of the assignment, where Kafka has one. */
  private static void parts(List<String> into, Object byTopic) {
    for (var of : ((Map<?, ?>) byTopic).entrySet()) {
      if (of.getValue() instanceof Map<?, ?> epochs) {
        for (var one : epochs.entrySet()) into.add("[" + name(of.getKey(), one.getKey()) + "," + one.getValue() + "]");
      } else {
        for (Object one : (Collection<?>) of.getValue()) into.add(name(of.getKey(), one));
      }
    }
    into.sort(null);
  }

  private static String member(Object group, String id, Object member) {
    Line line = new Line().with("m", id).with("known", member != null);
    if (member == null) return "{" + line + "}";
    List<String> assigned = new ArrayList<>(), pending = new ArrayList<>(), topics = new ArrayList<>();
    parts(assigned, Reader.get(member, "assignedPartitions"));
    parts(pending, Reader.get(member, "partitionsPendingRevocation"));
    for (Object one : subscription(group, member)) topics.add(Line.quoted(one.toString()));
    return "{"
        + line.with("e", Reader.number(member, "memberEpoch"))
            .with("pe", Reader.number(member, "previousMemberEpoch"))
            .with("state", Reader.get(member, "state").toString())
            .with("assigned", assigned)
            .with("pending", pending)
            .with("topics", topics)
            .with("regex", hasExpression(member))
            .with("static", Reader.get(member, "instanceId") != null)
            .with("classic", Reader.flag(member, "useClassicProtocol"))
        + "}";
  }

  private static boolean hasExpression(Object member) {
    Object regex = Reader.get(member, "subscribedTopicRegex");
    return regex != null && !regex.equals("");
  }

  private static Collection<Object> subscription(Object group, Object member) {
    Set<Object> topics = new LinkedHashSet<>(Reader.items(Reader.get(member, "subscribedTopicNames")));
    if (hasExpression(member)) {
      Object regex = Reader.get(member, "subscribedTopicRegex");
      Object resolved = Reader.held(Reader.call(group, "resolvedRegularExpression", regex));
      if (resolved != null) topics.addAll(Reader.items(Reader.get(resolved, "topics")));
    }
    return topics;
  }

  // Batches, and how far they are committed

  public static void marks(Object coordinator) {
    Object context = SERVING.get(coordinator);
    if (context != null) Steps.noted("groupMarker", () -> Journal.write(at(new Line("groupMarker"), context)));
  }

  public static void wrote(Object coordinator, long offset) {
    batch("groupWritten", coordinator, offset, true);
  }

  public static void reverts(Object coordinator, long offset) {
    batch("groupReverted", coordinator, offset, false);
  }

  public static void committed(Object coordinator, long offset) {
    if (SERVING.containsKey(coordinator) && Reader.number(coordinator, "lastCommittedOffset") != offset)
      batch("groupCommitted", coordinator, offset, false);
  }

  private static void batch(String event, Object coordinator, long offset, boolean epoch) {
    Object context = SERVING.get(coordinator);
    if (context == null) return;
    Steps.noted(
        event,
        () -> {
          Line line = at(new Line(event), context).with("off", offset);
          if (epoch) line.with("le", epochOf(log(context)));
          Journal.write(line);
        });
  }

  private static long epochOf(Object log) {
    Object epoch = log == null ? null : Reader.held(Reader.get(log, "latestEpoch"));
    return epoch == null ? -1 : ((Number) epoch).longValue();
  }

  private static Object log(Object context) {
    Object writer = Reader.get(Reader.get(context, "this$0"), "partitionWriter");
    return Reader.held(Reader.call(Reader.get(writer, "replicaManager"), "getLog", Reader.get(context, "tp")));
  }

  // Loads

  /** A coordinator serves with what it has loaded: the thread that lets requests in is this one. */
  public static void serves(Object context, Object state) {
    if (!isOffsets(context)) return;
    Object coordinator = Reader.get(context, "coordinator");
    if (!state.toString().equals("ACTIVE")) {
      SERVING.values().remove(context);
      return;
    }
    SERVING.put(coordinator, context);
    Steps.noted(
        "groupLoad",
        () -> {
          Object shard = Reader.get(coordinator, "coordinator"), log = log(context);
          Map<?, ?> groups = (Map<?, ?>) Reader.get(Reader.get(shard, "groupMetadataManager"), "groups");
          List<Map.Entry<?, ?>> those = new ArrayList<>();
          for (var of : groups.entrySet()) if (isConsumers(of.getValue())) those.add(of);
          List<String> epochs = new ArrayList<>();
          if (log != null)
            for (Object one : Reader.items(Reader.get(Reader.get(log, "leaderEpochCache"), "epochEntries")))
              epochs.add("[" + Reader.number(one, "epoch") + "," + Reader.number(one, "startOffset") + "]");
          Journal.write(
              at(new Line("groupLoad"), context)
                  .with("hw", log == null ? -1 : Reader.number(log, "highWatermark"))
                  .with("end", log == null ? -1 : Reader.number(log, "logEndOffset"))
                  .with("lw", Reader.number(coordinator, "lastWrittenOffset"))
                  .with("lc", Reader.number(coordinator, "lastCommittedOffset"))
                  .with("epochs", epochs)
                  .with("groups", those.size()));
          for (var of : those) Journal.write(loaded(context, (String) of.getKey(), of.getValue(), shard));
        });
  }

  private static Line loaded(Object context, String id, Object group, Object shard) {
    Map<?, ?> offsets = offsetsOf(shard, id);
    List<String> members = new ArrayList<>(), targets = new ArrayList<>(), committed = new ArrayList<>();
    for (var one : ((Map<?, ?>) Reader.get(group, "members")).entrySet())
      members.add(member(group, (String) one.getKey(), one.getValue()));
    for (var one : ((Map<?, ?>) Reader.get(group, "targetAssignment")).entrySet())
      targets.add(target((String) one.getKey(), one.getValue()));
    if (offsets != null)
      for (var topic : offsets.entrySet())
        for (var one : ((Map<?, ?>) topic.getValue()).entrySet())
          committed.add(offset(topic.getKey(), one.getKey(), Reader.number(one.getValue(), "committedOffset")));
    return epochs(at(new Line("groupLoaded").with("g", id), context), group)
        .with("now", members)
        .with("targets", targets)
        .with("committed", committed);
  }
}
