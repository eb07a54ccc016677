package highwater.recorder;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * The sends of one producer: each is written down before the client has the record.
 *
 * <p>From then on the record may be in the log. Any thread may send; reports come on another.
 */
final class Sends {
  private final Recording recording;
  private final Ids ids;
  private final Contents contents;
  private final Topics topics;
  private final Settings settings;
  private final boolean acknowledged;
  private final boolean idempotent;
  private volatile Scope scope = new Scope("");

  /** Whatever sends have in common: the transaction, and a number in the journal for each topic. */
  private static final class Scope {
    final String members;
    final Map<String, Integer> numbers = new ConcurrentHashMap<>();

    Scope(String members) {
      this.members = members;
    }
  }

  Sends(Recording recording, Ids ids, Contents contents, Topics topics, Settings settings) {
    this.recording = recording;
    this.ids = ids;
    this.contents = contents;
    this.topics = topics;
    this.settings = settings;
    this.acknowledged = !settings.acks().equals("0");
    this.idempotent = settings.idempotent();
  }

  /** From here on, sends belong to this transaction, or to none. */
  void inside(String members) {
    scope = new Scope(members);
  }

  /** Writes a send down; returns the record to send, with its id. */
  <K, V> ProducerRecord<K, V> begin(ProducerRecord<K, V> record, long seq, long invoked) {
    String topic = record.topic();
    byte[] key = contents.key(topic, record.key());
    boolean plain = record.partition() == null && !contents.hashes();
    plain &= key != null || record.key() == null;
    if (ids.areOwn()) {
      Object id = ids.of(topic, record.key(), record.value(), record.headers());
      if (plain && id instanceof Long && (Long) id != Ids.NONE) {
        compact(topic, seq, (Long) id, key, invoked);
      } else {
        spelt(record, seq, id, key, invoked);
      }
      return record;
    }
    long id = recording.firstId + seq;
    if (plain) {
      compact(topic, seq, id, key, invoked);
    } else {
      spelt(record, seq, id, key, invoked);
    }
    return Ids.marked(record, id);
  }

  private void compact(String topic, long seq, long id, byte[] key, long invoked) {
    Scope now = scope;
    Integer number = now.numbers.get(topic);
    if (number == null) {
      number = now.numbers.computeIfAbsent(topic, first -> number(first, now));
    }
    recording.journal.send(number, seq, id, key, invoked);
  }

  private int number(String topic, Scope of) {
    int number = recording.nextContext();
    Line line = new Line().put("context", number).put("topic", topic);
    recording.write(line.json("inside", Line.object(of.members)));
    return number;
  }

  /** For what the compact form has no room for. */
  private void spelt(ProducerRecord<?, ?> record, long seq, Object id, byte[] key, long invoked) {
    Line sent = new Line().put("topic", record.topic());
    if (id instanceof Long) {
      sent.put("id", (long) (Long) id);
    } else {
      sent.put("id", (String) id);
    }
    if (key != null) {
      sent.put("key", Texts.of(key));
    }
    if (record.partition() != null) {
      sent.put("partition", (long) record.partition()).put("chosen", true);
    } else if (key != null) {
      sent.put("chosen", false);
    }
    Long hash = contents.hash(record.topic(), record.key(), record.value(), record.headers());
    if (contents.hashes() && hash != null) {
      sent.put("hash", (long) hash);
    }
    Line line = new Line(seq).put("op", "send").put("invoked_ns", invoked);
    line.json("records", "[" + Line.object(sent.members()) + "]");
    recording.write(line.fields(scope.members));
  }

  /** The client has taken the record, so it knows the topic. */
  void taken(String topic, long invoked) {
    topics.used(topic, invoked);
  }

  /** The cluster has answered; with acks=0, the client has done what it could. */
  void stored(long seq, RecordMetadata metadata) {
    if (metadata.hasOffset()) {
      long stamp = metadata.hasTimestamp() ? metadata.timestamp() : -1;
      int partition = metadata.partition();
      recording.journal.report(seq, partition, metadata.offset(), stamp, Clock.now());
      return;
    }
    recording.answer(seq, acknowledged ? Outcomes.OK : Outcomes.INFO, in(metadata));
  }

  /** The client has given it up, or refused it in the call itself. */
  void refused(long seq, RecordMetadata metadata, Throwable error, boolean inCall) {
    String outcome =
        inCall
            ? Outcomes.ofCall(error, idempotent)
            : Outcomes.ofReport(error, settings.retries());
    recording.answer(seq, outcome, line -> {
      line.put("error", Words.error(error));
      in(metadata).accept(line);
    });
  }

  private static Consumer<Line> in(RecordMetadata metadata) {
    boolean known = metadata != null && metadata.partition() >= 0;
    return known ? line -> line.json("at", "[" + metadata.partition() + ",null,null]") : Recording.NOTHING;
  }
}
