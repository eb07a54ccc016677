package highwater.recorder;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * The records that a share consumer holds, and its acknowledgements that wait for their answer.
 *
 * <p>In implicit mode what a poll returned is accepted with the next call that asks the broker, in
 * explicit mode what the application has acknowledged by then.
 */
final class Shares {
  private final Recording recording;
  private final Polls polls;
  private final boolean implicit;
  private final String grouped;
  /** Acquired and not acknowledged; of each record the fields that name it. */
  private final Map<TopicPartition, Map<Long, String>> held = new LinkedHashMap<>();
  private final Map<TopicPartition, Map<Long, String>> chosen = new LinkedHashMap<>();
  private final List<Sent> waiting = new ArrayList<>();

  /** An acknowledgement under way: a call of the trace, and what of it has no answer yet. */
  static final class Sent {
    final long seq;
    final TopicPartition partition;
    final Set<Long> offsets;
    String refused;

    Sent(long seq, TopicPartition partition, Set<Long> offsets) {
      this.seq = seq;
      this.partition = partition;
      this.offsets = offsets;
    }
  }

  Shares(Recording recording, Polls polls, boolean implicit, String grouped) {
    this.recording = recording;
    this.polls = polls;
    this.implicit = implicit;
    this.grouped = grouped;
  }

  /** A record that a poll returned, with the count of its deliveries. */
  String acquired(ConsumerRecord<?, ?> record) {
    TopicPartition partition = new TopicPartition(record.topic(), record.partition());
    held.computeIfAbsent(partition, first -> new TreeMap<>())
        .put(record.offset(), polls.identified(record).members());
    Line line = polls.spelt(record);
    record.deliveryCount().ifPresent(count -> line.put("delivery_count", (long) count));
    return Line.object(line.members());
  }

  /** The application has decided about a record; it is recorded when that is sent. */
  void choose(TopicPartition partition, long offset, String type) {
    Map<Long, String> mine = chosen.computeIfAbsent(partition, first -> new TreeMap<>());
    String about = held.getOrDefault(partition, new TreeMap<>()).remove(offset);
    String before = mine.get(offset);
    if (about == null && before != null) {
      about = before.substring(0, before.lastIndexOf(",\"ack\""));
    }
    if (about != null) {
      mine.put(offset, about + ",\"ack\":\"" + type + "\"");
    }
  }

  /** Writes down what the next call sends, a call of the trace for each partition. */
  List<Sent> send() {
    if (implicit) {
      for (TopicPartition partition : List.copyOf(held.keySet())) {
        for (Long offset : List.copyOf(held.get(partition).keySet())) {
          choose(partition, offset, "accept");
        }
      }
      held.clear();
    }
    List<Sent> sent = new ArrayList<>();
    chosen.forEach((partition, records) -> {
      if (!records.isEmpty()) {
        sent.add(sent(partition, records));
      }
    });
    chosen.clear();
    waiting.addAll(sent);
    return sent;
  }

  private Sent sent(TopicPartition partition, Map<Long, String> records) {
    List<String> objects = new ArrayList<>();
    records.values().forEach(members -> objects.add(Line.object(members)));
    String all = "[" + String.join(",", objects) + "]";
    long seq = recording.call("acknowledge", line -> line.json("records", all).fields(grouped));
    return new Sent(seq, partition, new HashSet<>(records.keySet()));
  }

  /** An answer of the broker is about the oldest acknowledgement of each offset. */
  void answered(TopicPartition partition, Set<Long> offsets, Throwable refused) {
    Set<Long> left = new HashSet<>(offsets);
    for (Sent sent : List.copyOf(waiting)) {
      if (sent.partition.equals(partition)) {
        Set<Long> mine = new HashSet<>(sent.offsets);
        mine.retainAll(left);
        left.removeAll(mine);
        settle(sent, mine, refused);
      }
    }
  }

  /** With its last part a call is answered: well, if all parts were. */
  void settle(Sent sent, Set<Long> answered, Throwable refused) {
    if (answered.isEmpty()) {
      return;
    }
    sent.offsets.removeAll(answered);
    if (refused != null) {
      sent.refused = Words.error(refused);
    }
    if (!sent.offsets.isEmpty()) {
      return;
    }
    waiting.remove(sent);
    String outcome = sent.refused == null ? Outcomes.OK : Outcomes.INFO;
    recording.answer(sent.seq, outcome, line -> line.put("error", sent.refused));
  }
}
