package highwater.recorder;

import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * A recorder of a consumer whose application may not change: {@code interceptor.classes}.
 *
 * <p>It sees what polls return, and commits that were taken. It sees no rebalance, no seek and no
 * commit that failed.
 *
 * @param <K> the type of keys
 * @param <V> the type of values
 */
public final class RecordingConsumerInterceptor<K, V> implements ConsumerInterceptor<K, V> {
  private Recording recording;
  private Polls polls;
  private String grouped;
  /** A poll was made after the one before it, and that is all that is known of its call. */
  private long since;

  /** An interceptor that is configured by the client. */
  public RecordingConsumerInterceptor() {}

  @Override
  public void configure(Map<String, ?> configs) {
    Settings settings = Settings.consumer(configs);
    Options options = Intercepted.options(configs, "consumer");
    recording = Recorded.intercepted(
        Intercepted.run(configs), "consumer", settings.describedConsumer(options.commitOrder), settings, options);
    grouped = settings.grouped();
    Line about = new Line().put("isolation", settings.isolation()).fields(grouped);
    Contents contents = Contents.read(settings.given(), new Inside(null), options.hashed(settings, 1));
    polls = new Polls(recording, new Ids(null), contents, about.members());
    since = Clock.now();
    // Rebalances are not seen: a line that does not name the partitions says so.
    recording.note("assigned", since, line -> line.fields(grouped));
  }

  @Override
  public ConsumerRecords<K, V> onConsume(ConsumerRecords<K, V> records) {
    try {
      if (!records.isEmpty()) {
        polls.write(records, since);
      }
      since = Clock.now();
    } catch (RuntimeException | Error mistake) {
      recording.broken(mistake);
    }
    return records;
  }

  /** Neither the time nor the caller of the commit is known; so it counts as the client's own. */
  @Override
  public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
    if (offsets.isEmpty()) {
      return;
    }
    long seq = recording.call("commit", line -> line.put("auto", true).offsets(offsets).fields(grouped));
    recording.answer(seq, Outcomes.OK, Recording.NOTHING);
  }

  @Override
  public void close() {
    if (recording != null) {
      recording.end("close", Clock.now());
    }
  }
}
