package highwater.recorder;

import static java.nio.ByteOrder.LITTLE_ENDIAN;

import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.common.TopicPartition;

/** The polls of one consumer: the numbers of all records in one piece, or lines where that is too little. */
final class Polls {
  private static final int HEAD = 32;
  private static final int FIELDS = 48;
  private static final int USUAL = 256 << 10;

  private final Recording recording;
  private final Ids ids;
  private final Contents contents;
  private final String about;
  private final int aboutNumber;
  private final Map<TopicPartition, Integer> partitions = new HashMap<>();
  private ByteBuffer numbers = buffer(4096);
  private ByteBuffer keys = buffer(4096);

  /** The polls of a process; {@code about} is what they share, as JSON between braces. */
  Polls(Recording recording, Ids ids, Contents contents, String about) {
    this.recording = recording;
    this.ids = ids;
    this.contents = contents;
    this.about = about;
    this.aboutNumber = recording.nextContext();
    Line line = new Line().put("context", aboutNumber);
    recording.write(line.json("inside", Line.object(about)));
  }

  /** Writes down a poll that returned; its place is that of the return. */
  <K, V> long write(ConsumerRecords<K, V> records, long invoked) {
    long seq = recording.next();
    long returned = Clock.now();
    if (contents.hashes() || !compact(records, seq, invoked, returned)) {
      Line line = new Line(seq).put("op", "poll").put("outcome", "ok").put("invoked_ns", invoked);
      line.put("returned_ns", returned).json("records", spelt(records));
      recording.write(line.fields(about));
    }
    return seq;
  }

  private <K, V> boolean compact(
      ConsumerRecords<K, V> records, long seq, long invoked, long returned) {
    numbers = room(numbers.clear(), HEAD + FIELDS * records.count());
    keys.clear();
    numbers.putInt(aboutNumber).putInt(records.count());
    numbers.putLong(seq).putLong(invoked).putLong(returned);
    for (TopicPartition partition : records.partitions()) {
      int number = number(partition);
      List<ConsumerRecord<K, V>> several = records.records(partition);
      for (int i = 0; i < several.size(); i++) {
        if (!put(number, several.get(i))) {
          return false;
        }
      }
    }
    recording.journal.poll(numbers.flip(), keys.flip());
    if (numbers.capacity() > USUAL || keys.capacity() > USUAL) {
      numbers = buffer(4096);
      keys = buffer(4096);
    }
    return true;
  }

  private boolean put(int number, ConsumerRecord<?, ?> record) {
    long id;
    if (ids.areOwn()) {
      Object own = idOf(record);
      if (own instanceof String) {
        return false;
      }
      id = own == null ? Ids.NONE : (Long) own;
    } else {
      id = Ids.inHeader(record.headers());
    }
    byte[] key = contents.key(record.topic(), record.key());
    numbers.putLong(number).putLong(record.offset()).putLong(id);
    numbers.putLong(record.timestamp()).putLong(record.leaderEpoch().orElse(-1));
    numbers.putLong(key == null ? -1 : key.length);
    if (key != null) {
      keys = room(keys, key.length).put(key);
    }
    return true;
  }

  private int number(TopicPartition partition) {
    Integer known = partitions.get(partition);
    if (known != null) {
      return known;
    }
    int number = recording.nextContext();
    Line line = new Line().put("context", number).put("topic", partition.topic());
    recording.write(line.put("partition", partition.partition()));
    partitions.put(partition, number);
    return number;
  }

  private Object idOf(ConsumerRecord<?, ?> record) {
    return ids.of(record.topic(), record.key(), record.value(), record.headers());
  }

  /** Records as the trace has them, as JSON. */
  String spelt(Iterable<? extends ConsumerRecord<?, ?>> records) {
    StringBuilder out = new StringBuilder("[");
    for (ConsumerRecord<?, ?> record : records) {
      if (out.length() > 1) {
        out.append(',');
      }
      out.append(Line.object(spelt(record).members()));
    }
    return out.append(']').toString();
  }

  /** The fields that say which record it is. */
  Line identified(ConsumerRecord<?, ?> record) {
    Line line = new Line().put("topic", record.topic()).put("partition", record.partition());
    line.put("offset", record.offset());
    Object id = idOf(record);
    if (id instanceof Long) {
      line.put("id", (long) (Long) id);
    } else {
      line.put("id", (String) id);
    }
    return line;
  }

  Line spelt(ConsumerRecord<?, ?> record) {
    Line line = identified(record);
    byte[] key = contents.key(record.topic(), record.key());
    if (key != null) {
      line.put("key", Texts.of(key));
    }
    if (record.timestamp() >= 0) {
      line.put("timestamp", record.timestamp());
    }
    record.leaderEpoch().ifPresent(epoch -> line.put("epoch", (long) epoch));
    Long hash = contents.hash(record.topic(), record.key(), record.value(), record.headers());
    if (hash != null) {
      line.put("hash", (long) hash);
    }
    return line;
  }

  private static ByteBuffer room(ByteBuffer in, int more) {
    if (in.remaining() >= more) {
      return in;
    }
    return buffer(Math.max(2 * in.capacity(), in.position() + more)).put(in.flip());
  }

  private static ByteBuffer buffer(int size) {
    return ByteBuffer.allocate(size).order(LITTLE_ENDIAN);
  }
}
