package highwater.recorder;

import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.StringJoiner;
import java.util.TreeSet;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.AcknowledgementCommitCallback;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metrics.KafkaMetric;

/**
 * A share consumer, recorded: what it is given and acknowledges, and how long it waits in vain.
 *
 * @param <K> the type of keys
 * @param <V> the type of values
 */
public final class RecordedShareConsumer<K, V> implements ShareConsumer<K, V> {
  /** Polls that give nothing are one line, until it tells of so long. */
  private static final long SECOND = 1_000_000_000;

  private final ShareConsumer<K, V> client;
  private final Recording recording;
  private final Settings settings;
  private final Shares shares;
  private final Topics topics;
  private final String grouped;
  private List<String> partitions = List.of();
  private AcknowledgementCommitCallback users;
  private long asked = Clock.now();
  private long vainSince = -1;
  private long vainUntil;

  RecordedShareConsumer(
      ShareConsumer<K, V> client, Settings settings, Options options, Recording recording) {
    this.client = client;
    this.recording = recording;
    this.settings = settings;
    this.grouped = new Line().put("group", settings.group()).members();
    Inside inside = new Inside(client);
    this.topics = new Topics(recording, inside, false);
    Contents contents = Contents.read(settings.given(), inside, options.hashed(settings, 0));
    Polls polls = new Polls(recording, new Ids(options.id), contents, grouped);
    Object mode = settings.given().get("share.acknowledgement.mode");
    boolean implicit = mode == null || !mode.toString().equalsIgnoreCase("explicit");
    this.shares = new Shares(recording, polls, implicit, grouped);
    client.setAcknowledgementCommitCallback(this::answered);
  }

  /**
   * The name of the process in the trace.
   *
   * @return the client's name with the number of its incarnation
   */
  public String recordedAs() {
    return recording.name;
  }

  /** The recorder is given the answers before the application. */
  @Override
  public void setAcknowledgementCommitCallback(AcknowledgementCommitCallback callback) {
    users = callback;
  }

  private void answered(Map<TopicIdPartition, Set<Long>> offsets, Exception refused) {
    tried(() -> offsets.forEach((where, several) -> shares.answered(where.topicPartition(), several, refused)));
    if (users != null) {
      users.onComplete(offsets, refused);
    }
  }

  private void tried(Runnable work) {
    try {
      work.run();
    } catch (RuntimeException | Error mistake) {
      recording.broken(mistake);
    }
  }

  @Override
  public void subscribe(Collection<String> names) {
    long invoked = Clock.now();
    client.subscribe(names);
    asked = invoked;
    tried(() -> partitions = Partitions.of(new TreeSet<>(names), settings.given()));
    recording.note("subscribe", invoked, line -> {
      line.texts("topics", new TreeSet<>(names));
      if (!partitions.isEmpty()) {
        line.texts("partitions", partitions);
      }
      line.fields(grouped);
    });
  }

  @Override
  public void unsubscribe() {
    long invoked = Clock.now();
    endWait();
    client.unsubscribe();
    partitions = List.of();
    recording.note("subscribe", invoked, line -> line.texts("topics", Set.of()).fields(grouped));
  }

  @Override
  public ConsumerRecords<K, V> poll(Duration timeout) {
    tried(shares::send);
    long invoked = Clock.now();
    ConsumerRecords<K, V> records;
    try {
      records = client.poll(timeout);
    } catch (RuntimeException | Error refusal) {
      endWait();
      throw refusal;
    }
    tried(() -> {
      if (records.isEmpty()) {
        waited(invoked);
      } else {
        endWait();
        acquired(records, invoked);
      }
    });
    return records;
  }

  /** Records of a poll may have been asked for since the last poll that returned some. */
  private void acquired(ConsumerRecords<K, V> records, long invoked) {
    StringJoiner all = new StringJoiner(",", "[", "]");
    records.forEach(record -> all.add(shares.acquired(record)));
    recording.note("acquire", asked, line -> line.json("records", all.toString()).fields(grouped));
    asked = invoked;
    records.partitions().forEach(partition -> topics.used(partition.topic(), invoked));
  }

  private void waited(long invoked) {
    vainSince = vainSince < 0 ? invoked : vainSince;
    vainUntil = Clock.now();
    if (vainUntil - vainSince >= SECOND) {
      endWait();
    }
  }

  private void endWait() {
    if (vainSince >= 0 && !partitions.isEmpty()) {
      tried(() -> {
        Line line = new Line(recording.next()).put("op", "acquire").put("outcome", "ok");
        line.put("invoked_ns", vainSince).put("returned_ns", vainUntil).fields(grouped);
        recording.write(line.json("records", "[]").texts("partitions", partitions));
      });
    }
    vainSince = -1;
  }

  @Override
  public void acknowledge(ConsumerRecord<K, V> record) {
    client.acknowledge(record);
    choose(record, AcknowledgeType.ACCEPT);
  }

  @Override
  public void acknowledge(ConsumerRecord<K, V> record, AcknowledgeType type) {
    client.acknowledge(record, type);
    choose(record, type);
  }

  @Override
  public void acknowledge(String topic, int partition, long offset, AcknowledgeType type) {
    client.acknowledge(topic, partition, offset, type);
    choose(new TopicPartition(topic, partition), offset, type);
  }

  private void choose(ConsumerRecord<K, V> record, AcknowledgeType type) {
    choose(new TopicPartition(record.topic(), record.partition()), record.offset(), type);
  }

  private void choose(TopicPartition partition, long offset, AcknowledgeType type) {
    tried(() -> shares.choose(partition, offset, type.name().toLowerCase(Locale.ROOT)));
  }

  @Override
  public Map<TopicIdPartition, Optional<KafkaException>> commitSync() {
    return committed(client::commitSync);
  }

  @Override
  public Map<TopicIdPartition, Optional<KafkaException>> commitSync(Duration timeout) {
    return committed(() -> client.commitSync(timeout));
  }

  private Map<TopicIdPartition, Optional<KafkaException>> committed(
      Supplier<Map<TopicIdPartition, Optional<KafkaException>>> call) {
    endWait();
    List<Shares.Sent> mine = sent();
    Map<TopicIdPartition, Optional<KafkaException>> answers = call.get();
    tried(() -> answers.forEach((where, refused) -> {
      for (Shares.Sent sent : mine) {
        if (sent.partition.equals(where.topicPartition())) {
          shares.settle(sent, new HashSet<>(sent.offsets), refused.orElse(null));
        }
      }
    }));
    return answers;
  }

  private List<Shares.Sent> sent() {
    try {
      return shares.send();
    } catch (RuntimeException | Error mistake) {
      recording.broken(mistake);
      return List.of();
    }
  }

  @Override
  public void commitAsync() {
    endWait();
    sent();
    client.commitAsync();
  }

  @Override
  public Set<String> subscription() {
    return client.subscription();
  }

  @Override
  public Uuid clientInstanceId(Duration timeout) {
    return client.clientInstanceId(timeout);
  }

  @Override
  public Optional<Integer> acquisitionLockTimeoutMs() {
    return client.acquisitionLockTimeoutMs();
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
  public void close() {
    endWait();
    sent();
    Ending.around(recording, topics, client::close);
  }

  @Override
  public void close(Duration timeout) {
    endWait();
    sent();
    Ending.around(recording, topics, () -> client.close(timeout));
  }

  @Override
  public void wakeup() {
    client.wakeup();
  }
}
