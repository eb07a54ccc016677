package highwater.recorder;

import java.util.Map;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * An interceptor that a consumer is given which the recorder makes: it reports automatic commits.
 *
 * @param <K> the type of keys
 * @param <V> the type of values
 */
public final class CommitHook<K, V> implements ConsumerInterceptor<K, V> {
  /** The setting with the object that commits are reported to. */
  static final String LISTENER = "highwater.recorder.commit.listener";

  private Consumer<Map<TopicPartition, OffsetAndMetadata>> listener = offsets -> {};

  /** An interceptor that is configured by the client. */
  public CommitHook() {}

  @Override
  @SuppressWarnings("unchecked")
  public void configure(Map<String, ?> configs) {
    Object given = configs.get(LISTENER);
    if (given instanceof Consumer) {
      listener = (Consumer<Map<TopicPartition, OffsetAndMetadata>>) given;
    }
  }

  @Override
  public ConsumerRecords<K, V> onConsume(ConsumerRecords<K, V> records) {
    return records;
  }

  @Override
  public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
    listener.accept(offsets);
  }

  @Override
  public void close() {}
}
