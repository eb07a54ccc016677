package highwater.recorder;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetCommitCallback;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;

/**
 * A consumer, recorded: polls, rebalances, positions and commits.
 *
 * <p>Two methods are new: {@link #process} around the handling of records, or {@link #processed}
 * after it. Without them nobody can say whether what was committed had been processed.
 *
 * @param <K> the type of keys
 * @param <V> the type of values
 */
public final class RecordedConsumer<K, V> extends ConsumerBehind<K, V> {
  private static final Class<?> FORMER = org.apache.kafka.clients.consumer.Consumer.class;

  private final Recording recording;
  private final Commits commits;
  private final Ids ids;
  private final Questions questions;
  private final Options options;
  private final Settings settings;
  private final String grouped;
  private final String isolation;
  private Inside inside;
  private Topics topics;
  private Polls polls;
  private final Handling handling;

  RecordedConsumer(Settings settings, Options options, Recording recording) {
    this.settings = settings;
    this.options = options;
    this.recording = recording;
    this.commits = new Commits(recording, settings);
    this.ids = new Ids(options.id);
    this.grouped = settings.grouped();
    this.isolation = new Line().put("isolation", settings.isolation()).members();
    this.handling = new Handling(recording, grouped);
    this.questions = new Questions(recording, isolation);
  }

  static <K, V> RecordedConsumer<K, V> opened(Settings settings, Options options, Path run) {
    Line described = settings.describedConsumer(options.commitOrder);
    Recording recording = Recorded.open(run, "consumer", described, settings, options);
    return new RecordedConsumer<>(settings, options, recording);
  }

  /** The client could not be made: nothing is left of its recording. */
  void abandon() {
    recording.discard();
  }

  /** Takes the client, once it is made: its interceptor had to be there before it. */
  RecordedConsumer<K, V> around(org.apache.kafka.clients.consumer.Consumer<K, V> made) {
    client = made;
    inside = new Inside(made);
    topics = new Topics(recording, inside, false);
    Contents contents = Contents.read(settings.given(), inside, options.hashed(settings, 0));
    polls = new Polls(recording, ids, contents, new Line().fields(isolation).fields(grouped).members());
    return this;
  }

  /**
   * The name of the process in the trace.
   *
   * @return the client's name with the number of its incarnation
   */
  public String recordedAs() {
    return recording.name;
  }

  /**
   * The application handles these records until it says that it is done.
   *
   * @param records what a poll returned, or some of it
   * @return the handling, to be closed; what was not done by then counts as not processed
   */
  public Processing process(Iterable<ConsumerRecord<K, V>> records) {
    long invoked = Clock.now();
    return new Processing(() -> handling.note(records, polls, invoked));
  }

  /**
   * The application handles this record until it says that it is done.
   *
   * @param record a record that a poll returned
   * @return the handling, to be closed
   */
  public Processing process(ConsumerRecord<K, V> record) {
    return process(List.of(record));
  }

  /**
   * The application is done with these records.
   *
   * @param records what a poll returned, or some of it
   */
  public void processed(Iterable<ConsumerRecord<K, V>> records) {
    handling.note(records, polls, Clock.now());
  }

  /**
   * The application is done with this record.
   *
   * @param record a record that a poll returned
   */
  public void processed(ConsumerRecord<K, V> record) {
    processed(List.of(record));
  }

  @Override
  public ConsumerRecords<K, V> poll(Duration timeout) {
    return polled(() -> client.poll(timeout));
  }

  /**
   * The same with a time in milliseconds, as clients before 4.0 have it.
   *
   * @param timeout how long to wait
   * @return the records
   */
  public ConsumerRecords<K, V> poll(long timeout) {
    return polled(() -> Inside.former(FORMER, client, "poll", new Class<?>[] {long.class}, timeout));
  }

  private ConsumerRecords<K, V> polled(Supplier<ConsumerRecords<K, V>> call) {
    long invoked = Clock.now();
    ConsumerRecords<K, V> records = call.get();
    if (!records.isEmpty()) {
      try {
        long seq = polls.write(records, invoked);
        handling.polled(seq, records);
        for (TopicPartition partition : records.partitions()) {
          topics.used(partition.topic(), invoked);
        }
      } catch (RuntimeException | Error mistake) {
        recording.broken(mistake);
      }
    }
    return records;
  }

  /** Group, member and generation as the client holds them now. */
  String membership() {
    if (grouped.isEmpty()) {
      return "";
    }
    try {
      return Members.of(client.groupMetadata(), grouped);
    } catch (RuntimeException unknown) {
      return grouped;
    }
  }

  void rebalanced(String op, long invoked, Collection<TopicPartition> partitions, String held) {
    recording.note(op, invoked, line -> line.partitions(partitions).fields(held));
  }

  @Override
  public void subscribe(Collection<String> names) {
    subscribe(names, null);
  }

  @Override
  public void subscribe(Collection<String> names, ConsumerRebalanceListener listener) {
    long invoked = Clock.now();
    client.subscribe(names, new Rebalances(this, listener));
    subscribed(invoked, new TreeSet<>(names));
  }

  @Override
  public void subscribe(Pattern pattern) {
    subscribe(pattern, null);
  }

  @Override
  public void subscribe(Pattern pattern, ConsumerRebalanceListener listener) {
    long invoked = Clock.now();
    client.subscribe(pattern, new Rebalances(this, listener));
    subscribed(invoked, Set.of("/" + pattern + "/"));
  }

  @Override
  public void subscribe(SubscriptionPattern pattern) {
    subscribe(pattern, null);
  }

  @Override
  public void subscribe(SubscriptionPattern pattern, ConsumerRebalanceListener listener) {
    long invoked = Clock.now();
    client.subscribe(pattern, new Rebalances(this, listener));
    subscribed(invoked, Set.of("/" + pattern.pattern() + "/"));
  }

  @Override
  public void unsubscribe() {
    long invoked = Clock.now();
    client.unsubscribe();
    subscribed(invoked, Set.of());
  }

  private void subscribed(long invoked, Set<String> names) {
    recording.note("subscribe", invoked, line -> line.texts("topics", names).fields(grouped));
  }

  @Override
  public void assign(Collection<TopicPartition> partitions) {
    long invoked = Clock.now();
    client.assign(partitions);
    recording.note("assign", invoked, line -> line.partitions(partitions));
  }

  @Override
  public void seek(TopicPartition partition, long offset) {
    seek(partition, offset, () -> client.seek(partition, offset));
  }

  @Override
  public void seek(TopicPartition partition, OffsetAndMetadata offset) {
    seek(partition, offset == null ? -1 : offset.offset(), () -> client.seek(partition, offset));
  }

  private void seek(TopicPartition partition, long offset, Runnable call) {
    long invoked = Clock.now();
    call.run();
    recording.note("seek", invoked, line -> {
      line.partitions(List.of(partition));
      line.numbers("offsets", Map.of(Line.named(partition), offset));
    });
  }

  @Override
  public void seekToBeginning(Collection<TopicPartition> partitions) {
    seekSomewhere(partitions, () -> client.seekToBeginning(partitions));
  }

  @Override
  public void seekToEnd(Collection<TopicPartition> partitions) {
    seekSomewhere(partitions, () -> client.seekToEnd(partitions));
  }

  /** The next poll shows to which offsets. */
  private void seekSomewhere(Collection<TopicPartition> partitions, Runnable call) {
    long invoked = Clock.now();
    call.run();
    Collection<TopicPartition> moved = partitions.isEmpty() ? client.assignment() : partitions;
    recording.note("seek", invoked, line -> line.partitions(moved));
  }

  @Override
  public void pause(Collection<TopicPartition> partitions) {
    long invoked = Clock.now();
    client.pause(partitions);
    recording.note("pause", invoked, line -> line.partitions(partitions));
  }

  @Override
  public void resume(Collection<TopicPartition> partitions) {
    long invoked = Clock.now();
    client.resume(partitions);
    recording.note("resume", invoked, line -> line.partitions(partitions));
  }

  private Consumer<Line> committer() {
    String held = membership();
    return line -> {
      handling.by(line);
      line.fields(held);
    };
  }

  @Override
  public void commitSync() {
    commits.sync(consumed(), committer(), client::commitSync);
  }

  @Override
  public void commitSync(Duration timeout) {
    commits.sync(consumed(), committer(), () -> client.commitSync(timeout));
  }

  @Override
  public void commitSync(Map<TopicPartition, OffsetAndMetadata> offsets) {
    commits.sync(offsets, committer(), () -> client.commitSync(offsets));
  }

  @Override
  public void commitSync(Map<TopicPartition, OffsetAndMetadata> offsets, Duration timeout) {
    commits.sync(offsets, committer(), () -> client.commitSync(offsets, timeout));
  }

  @Override
  public void commitAsync() {
    commitAsync((OffsetCommitCallback) null);
  }

  @Override
  public void commitAsync(OffsetCommitCallback callback) {
    commits.async(consumed(), committer(), callback, client::commitAsync);
  }

  @Override
  public void commitAsync(Map<TopicPartition, OffsetAndMetadata> offsets, OffsetCommitCallback callback) {
    commits.async(offsets, committer(), callback, ours -> client.commitAsync(offsets, ours));
  }

  /** The offsets of a commit without arguments, or null if they are unknown. */
  private Map<TopicPartition, OffsetAndMetadata> consumed() {
    try {
      return inside.consumed();
    } catch (RuntimeException unknown) {
      return null;
    }
  }

  /** The client's interceptor reports a commit. */
  void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
    String held = membership();
    commits.taken(offsets, line -> line.fields(held));
  }

  @Override
  public Map<TopicPartition, OffsetAndMetadata> committed(Set<TopicPartition> partitions) {
    return questions.committed(partitions, membership(), () -> client.committed(partitions));
  }

  @Override
  public Map<TopicPartition, OffsetAndMetadata> committed(
      Set<TopicPartition> partitions, Duration timeout) {
    return questions.committed(partitions, membership(), () -> client.committed(partitions, timeout));
  }

  @Override
  public Map<TopicPartition, Long> beginningOffsets(Collection<TopicPartition> partitions) {
    return questions.listed("earliest", () -> client.beginningOffsets(partitions));
  }

  @Override
  public Map<TopicPartition, Long> beginningOffsets(
      Collection<TopicPartition> partitions, Duration timeout) {
    return questions.listed("earliest", () -> client.beginningOffsets(partitions, timeout));
  }

  @Override
  public Map<TopicPartition, Long> endOffsets(Collection<TopicPartition> partitions) {
    return questions.listed("latest", () -> client.endOffsets(partitions));
  }

  @Override
  public Map<TopicPartition, Long> endOffsets(Collection<TopicPartition> partitions, Duration timeout) {
    return questions.listed("latest", () -> client.endOffsets(partitions, timeout));
  }

  @Override
  public Map<TopicPartition, OffsetAndTimestamp> offsetsForTimes(Map<TopicPartition, Long> times) {
    return questions.timed(times, () -> client.offsetsForTimes(times));
  }

  @Override
  public Map<TopicPartition, OffsetAndTimestamp> offsetsForTimes(
      Map<TopicPartition, Long> times, Duration timeout) {
    return questions.timed(times, () -> client.offsetsForTimes(times, timeout));
  }

  @Override
  public void close() {
    Ending.around(recording, topics, client::close);
  }

  @Override
  @SuppressWarnings("deprecation")
  public void close(Duration timeout) {
    Ending.around(recording, topics, () -> client.close(timeout));
  }

  @Override
  public void close(CloseOptions option) {
    Ending.around(recording, topics, () -> client.close(option));
  }

}