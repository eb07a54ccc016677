package highwater.recorder;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.protocol.Errors;

/**
 * A producer, recorded: each send from its call to its report, and its transactions.
 *
 * @param <K> the type of keys
 * @param <V> the type of values
 */
public final class RecordedProducer<K, V> implements Producer<K, V> {
  private final Producer<K, V> client;
  private final Recording recording;
  private final Inside inside;
  private final Topics topics;
  private final Sends sends;
  private final String named;
  private long txn = -1;

  RecordedProducer(Producer<K, V> client, Settings settings, Options options, Recording recording) {
    this.client = client;
    this.recording = recording;
    this.inside = new Inside(client);
    this.topics = new Topics(recording, inside, true);
    Contents contents = Contents.sent(settings.given(), inside, options.hashed(settings, 0));
    this.sends = new Sends(recording, new Ids(options.id), contents, topics, settings);
    this.named = new Line().put("transactional_id", settings.transactionalId()).members();
  }

  /**
   * The name of the process in the trace.
   *
   * @return the client's name with the number of its incarnation
   */
  public String recordedAs() {
    return recording.name;
  }

  @Override
  public Future<RecordMetadata> send(ProducerRecord<K, V> record) {
    return send(record, null);
  }

  @Override
  public Future<RecordMetadata> send(ProducerRecord<K, V> record, Callback callback) {
    if (record == null) {
      return client.send(null, callback);
    }
    long invoked = Clock.now();
    Answer answer;
    ProducerRecord<K, V> marked;
    try {
      long seq = recording.next();
      marked = sends.begin(record, seq, invoked);
      answer = new Answer(recording, sends, seq, callback);
    } catch (RuntimeException | Error mistake) {
      recording.broken(mistake);
      return client.send(record, callback);
    }
    Future<RecordMetadata> future;
    try {
      future = client.send(marked, answer);
    } catch (RuntimeException | Error refusal) {
      answer.raised(refusal);
      throw refusal;
    }
    if (!answer.returned()) {
      learn(record.topic(), invoked);
    }
    return future;
  }

  private void learn(String topic, long invoked) {
    try {
      sends.taken(topic, invoked);
    } catch (RuntimeException | Error mistake) {
      recording.broken(mistake);
    }
  }

  @Override
  public void initTransactions() {
    transact("init_producer", line -> line.fields(named), client::initTransactions);
  }

  @Override
  public void beginTransaction() {
    txn++;
    sends.inside(ofTransaction());
    transact("txn_begin", line -> line.fields(ofTransaction()), client::beginTransaction);
  }

  @Override
  public void sendOffsetsToTransaction(
      Map<TopicPartition, OffsetAndMetadata> offsets, ConsumerGroupMetadata group) {
    transact(
        "txn_offsets",
        line -> line.fields(ofTransaction()).offsets(offsets).fields(Members.of(group, "")),
        () -> client.sendOffsetsToTransaction(offsets, group));
  }

  /**
   * The same for a group that is known by its name alone, as clients before 4.0 have it.
   *
   * @param offsets the next offsets to read
   * @param group the name of the group
   */
  public void sendOffsetsToTransaction(Map<TopicPartition, OffsetAndMetadata> offsets, String group) {
    Class<?>[] types = {Map.class, String.class};
    transact(
        "txn_offsets",
        line -> line.fields(ofTransaction()).offsets(offsets).put("group", group),
        () -> Inside.former(Producer.class, client, "sendOffsetsToTransaction", types, offsets, group));
  }

  @Override
  public void commitTransaction() {
    transact("txn_commit", line -> line.fields(ofTransaction()), client::commitTransaction);
    sends.inside("");
  }

  @Override
  public void abortTransaction() {
    transact("txn_abort", line -> line.fields(ofTransaction()), client::abortTransaction);
    sends.inside("");
  }

  private String ofTransaction() {
    return new Line().fields(named).put("txn", txn).members();
  }

  private void transact(String op, Consumer<Line> about, Runnable call) {
    long seq = recording.call(op, about);
    boolean refuses = inside.hasFailed();
    try {
      call.run();
    } catch (RuntimeException | Error refusal) {
      boolean certain = op.equals("txn_begin") || isRefused(op, refuses, refusal);
      String outcome = certain ? Outcomes.FAIL : Outcomes.INFO;
      recording.answer(seq, outcome, line -> line.put("error", Words.error(refusal)));
      throw refusal;
    }
    recording.answer(seq, Outcomes.OK, op.equals("init_producer") ? this::identify : Recording.NOTHING);
  }

  private void identify(Line line) {
    long[] known = inside.identity();
    if (known != null) {
      line.put("producer_id", known[0]).put("producer_epoch", known[1]);
    }
  }

  /** True if the transaction was certainly not committed: no request was made, or none can be. */
  private boolean isRefused(String op, boolean refused, Throwable refusal) {
    if (!op.equals("txn_commit") && !op.equals("txn_offsets")) {
      return false;
    }
    if (refused || op.equals("txn_offsets")) {
      return refused || inside.mustAbort();
    }
    Throwable cause = refusal.getCause() == null ? refusal : refusal.getCause();
    Errors known = Words.known(cause);
    // These may answer the request itself, and then perhaps a second one.
    boolean answered =
        known == Errors.TRANSACTION_ABORTABLE
            || known == Errors.UNKNOWN_PRODUCER_ID
            || known == Errors.INVALID_PRODUCER_ID_MAPPING;
    return !answered && inside.mustAbort();
  }

  @Override
  public void flush() {
    client.flush();
  }

  @Override
  public List<PartitionInfo> partitionsFor(String topic) {
    return client.partitionsFor(topic);
  }

  @Override
  public Map<MetricName, ? extends Metric> metrics() {
    return client.metrics();
  }

  @Override
  public Uuid clientInstanceId(Duration timeout) {
    return client.clientInstanceId(timeout);
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
    Ending.around(recording, topics, client::close);
  }

  @Override
  public void close(Duration timeout) {
    Ending.around(recording, topics, () -> client.close(timeout));
  }
}
