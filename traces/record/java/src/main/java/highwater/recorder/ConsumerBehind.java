package highwater.recorder;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metrics.KafkaMetric;

/** A consumer behind a recorder, and its calls of which no trace tells. */
abstract class ConsumerBehind<K, V> implements Consumer<K, V> {
  Consumer<K, V> client;

  @Override
  public Set<TopicPartition> assignment() {
    return client.assignment();
  }

  @Override
  public Set<String> subscription() {
    return client.subscription();
  }

  @Override
  public long position(TopicPartition partition) {
    return client.position(partition);
  }

  @Override
  public long position(TopicPartition partition, Duration timeout) {
    return client.position(partition, timeout);
  }

  @Override
  public Uuid clientInstanceId(Duration timeout) {
    return client.clientInstanceId(timeout);
  }

  @Override
  public Map<MetricName, ? extends Metric> metrics() {
    return client.metrics();
  }

  @Override
  public void registerMetricForSubscription(KafkaMetric metric) {
    client.registerMetricForSubscription(metric);
  }

  @Override
  public void unregisterMetricFromSubscription(KafkaMetric metric) {
    client.unregisterMetricFromSubscription(metric);
  }

  @Override
  public List<PartitionInfo> partitionsFor(String topic) {
    return client.partitionsFor(topic);
  }

  @Override
  public List<PartitionInfo> partitionsFor(String topic, Duration timeout) {
    return client.partitionsFor(topic, timeout);
  }

  @Override
  public Map<String, List<PartitionInfo>> listTopics() {
    return client.listTopics();
  }

  @Override
  public Map<String, List<PartitionInfo>> listTopics(Duration timeout) {
    return client.listTopics(timeout);
  }

  @Override
  public Set<TopicPartition> paused() {
    return client.paused();
  }

  @Override
  public OptionalLong currentLag(TopicPartition partition) {
    return client.currentLag(partition);
  }

  @Override
  public ConsumerGroupMetadata groupMetadata() {
    return client.groupMetadata();
  }

  @Override
  public void enforceRebalance() {
    client.enforceRebalance();
  }

  @Override
  public void enforceRebalance(String reason) {
    client.enforceRebalance(reason);
  }

  @Override
  public void wakeup() {
    client.wakeup();
  }

  /**
   * The same for one partition, as clients before 4.0 have it.
   *
   * @param partition the partition
   * @return its committed offset, or null
   */
  public OffsetAndMetadata committed(TopicPartition partition) {
    return committed(Set.of(partition)).get(partition);
  }

  /**
   * The same for one partition, as clients before 4.0 have it.
   *
   * @param partition the partition
   * @param timeout how long to wait
   * @return its committed offset, or null
   */
  public OffsetAndMetadata committed(TopicPartition partition, Duration timeout) {
    return committed(Set.of(partition), timeout).get(partition);
  }
}
