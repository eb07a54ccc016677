package highwater.recorder;

import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;

/** The questions of a consumer for offsets, and their answers. */
final class Questions {
  private final Recording recording;
  private final String isolation;

  Questions(Recording recording, String isolation) {
    this.recording = recording;
    this.isolation = isolation;
  }

  Map<TopicPartition, OffsetAndMetadata> committed(
      Set<TopicPartition> partitions, String held, Supplier<Map<TopicPartition, OffsetAndMetadata>> call) {
    long seq = recording.call("committed", line -> line.partitions(partitions).fields(held));
    try {
      Map<TopicPartition, OffsetAndMetadata> found = call.get();
      recording.answer(seq, Outcomes.OK, line -> line.offsets(found));
      return found;
    } catch (RuntimeException | Error refusal) {
      recording.answer(seq, Outcomes.INFO, line -> line.put("error", Words.error(refusal)));
      throw refusal;
    }
  }

  Map<TopicPartition, Long> listed(String query, Supplier<Map<TopicPartition, Long>> call) {
    long invoked = Clock.now();
    Map<TopicPartition, Long> found = call.get();
    recording.note("list_offsets", invoked, line -> {
      Map<String, Long> named = new TreeMap<>();
      found.forEach((partition, offset) -> named.put(Line.named(partition), offset));
      line.put("query", query).numbers("offsets", named).fields(isolation);
    });
    return found;
  }

  /** One call of the trace for each time that was asked for. */
  Map<TopicPartition, OffsetAndTimestamp> timed(
      Map<TopicPartition, Long> times, Supplier<Map<TopicPartition, OffsetAndTimestamp>> call) {
    long invoked = Clock.now();
    Map<TopicPartition, OffsetAndTimestamp> found = call.get();
    for (Long time : new TreeSet<>(times.values())) {
      recording.note("list_offsets", invoked, line -> {
        Map<String, Long> named = new TreeMap<>();
        found.forEach((partition, at) -> {
          if (at != null && time.equals(times.get(partition))) {
            named.put(Line.named(partition), at.offset());
          }
        });
        line.put("query", time).numbers("offsets", named);
      });
    }
    return found;
  }
}
