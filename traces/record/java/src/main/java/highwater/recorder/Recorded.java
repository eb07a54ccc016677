package highwater.recorder;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.TopicPartition;

/**
 * The one line that an application puts around a client.
 *
 * <pre>{@code
 * var producer = Recorded.producer(new KafkaProducer<>(conf), conf, Path.of("runs/orders-17"), "p0");
 * }</pre>
 *
 * <p>What the client does and sees becomes a process file in the run's folder. Arguments that cannot
 * be used raise {@link IllegalArgumentException}; a folder that cannot be written to, {@link
 * UncheckedIOException}. Nothing is raised later.
 */
public final class Recorded {
  private Recorded() {}

  /**
   * A producer, recorded.
   *
   * @param client the producer
   * @param conf its configuration
   * @param run the run's folder; it is made if it is not there
   * @param name the client's name in the trace
   * @param <K> the type of keys
   * @param <V> the type of values
   * @return the producer, to be used instead
   */
  public static <K, V> RecordedProducer<K, V> producer(
      Producer<K, V> client, Map<?, ?> conf, Path run, String name) {
    return producer(client, conf, run, Options.named(name));
  }

  /**
   * A producer, recorded.
   *
   * @param client the producer
   * @param conf its configuration
   * @param run the run's folder; it is made if it is not there
   * @param options its name, and more
   * @param <K> the type of keys
   * @param <V> the type of values
   * @return the producer, to be used instead
   */
  public static <K, V> RecordedProducer<K, V> producer(
      Producer<K, V> client, Map<?, ?> conf, Path run, Options options) {
    Objects.requireNonNull(client, "client");
    Settings settings = Settings.producer(conf);
    Recording recording = open(run, "producer", settings.describedProducer(0), settings, options);
    return new RecordedProducer<>(client, settings, options, recording);
  }

  /**
   * A consumer, recorded; an instance does not report its automatic commits.
   *
   * @param client the consumer
   * @param conf its configuration
   * @param run the run's folder; it is made if it is not there
   * @param name the client's name in the trace
   * @param <K> the type of keys
   * @param <V> the type of values
   * @return the consumer, to be used instead
   */
  public static <K, V> RecordedConsumer<K, V> consumer(
      org.apache.kafka.clients.consumer.Consumer<K, V> client, Map<?, ?> conf, Path run, String name) {
    return consumer(client, conf, run, Options.named(name));
  }

  /**
   * A consumer, recorded; an instance does not report its automatic commits.
   *
   * @param client the consumer
   * @param conf its configuration
   * @param run the run's folder; it is made if it is not there
   * @param options its name, and more
   * @param <K> the type of keys
   * @param <V> the type of values
   * @return the consumer, to be used instead
   */
  public static <K, V> RecordedConsumer<K, V> consumer(
      org.apache.kafka.clients.consumer.Consumer<K, V> client,
      Map<?, ?> conf,
      Path run,
      Options options) {
    Objects.requireNonNull(client, "client");
    Settings settings = Settings.consumer(conf);
    return RecordedConsumer.<K, V>opened(settings, options, run).around(client);
  }

  /**
   * A consumer that is made here, of its configuration: its automatic commits are recorded, too.
   *
   * @param conf its configuration, deserializers included
   * @param run the run's folder; it is made if it is not there
   * @param options its name, and more
   * @param <K> the type of keys
   * @param <V> the type of values
   * @return the consumer
   */
  public static <K, V> RecordedConsumer<K, V> consumer(Map<?, ?> conf, Path run, Options options) {
    Settings settings = Settings.consumer(conf);
    RecordedConsumer<K, V> consumer = RecordedConsumer.opened(settings, options, run);
    try {
      return consumer.around(new KafkaConsumer<>(hooked(settings.given(), consumer::onCommit)));
    } catch (RuntimeException | Error refusal) {
      consumer.abandon();
      throw refusal;
    }
  }

  /**
   * A consumer that is made here, of its configuration: its automatic commits are recorded, too.
   *
   * @param conf its configuration, deserializers included
   * @param run the run's folder; it is made if it is not there
   * @param name the client's name in the trace
   * @param <K> the type of keys
   * @param <V> the type of values
   * @return the consumer
   */
  public static <K, V> RecordedConsumer<K, V> consumer(Map<?, ?> conf, Path run, String name) {
    return consumer(conf, run, Options.named(name));
  }

  /**
   * A share consumer, recorded, where the version of kafka-clients has such.
   *
   * @param client the share consumer
   * @param conf its configuration
   * @param run the run's folder; it is made if it is not there
   * @param options its name, and more
   * @param <K> the type of keys
   * @param <V> the type of values
   * @return the share consumer, to be used instead
   */
  public static <K, V> RecordedShareConsumer<K, V> shareConsumer(
      ShareConsumer<K, V> client, Map<?, ?> conf, Path run, Options options) {
    Objects.requireNonNull(client, "client");
    Settings settings = Settings.consumer(conf);
    Line described = new Line().put("group", settings.group());
    Recording recording = open(run, "consumer", described, settings, options);
    return new RecordedShareConsumer<>(client, settings, options, recording);
  }

  private static Map<String, Object> hooked(
      Map<String, ?> conf, Consumer<Map<TopicPartition, OffsetAndMetadata>> listener) {
    Map<String, Object> hooked = new HashMap<>(conf);
    List<Object> interceptors = new ArrayList<>();
    Object given = conf.get(ConsumerConfig.INTERCEPTOR_CLASSES_CONFIG);
    if (given instanceof List) {
      interceptors.addAll((List<?>) given);
    } else if (given != null && !given.toString().isBlank()) {
      interceptors.addAll(List.of(given.toString().strip().split("\\s*,\\s*")));
    }
    interceptors.add(CommitHook.class.getName());
    hooked.put(ConsumerConfig.INTERCEPTOR_CLASSES_CONFIG, interceptors);
    hooked.put(CommitHook.LISTENER, listener);
    return hooked;
  }

  static Recording open(Path run, String role, Line described, Settings settings, Options options) {
    Objects.requireNonNull(options, "options");
    return open(run, role, described, options, options.hashed(settings, 0));
  }

  /** The recording of an interceptor, which knows that there are interceptors. */
  static Recording intercepted(
      Path run, String role, Line described, Settings settings, Options options) {
    return open(run, role, described, options, options.hashed(settings, 1));
  }

  private static Recording open(Path run, String role, Line described, Options options, boolean hashes) {
    Objects.requireNonNull(run, "run");
    Line about = new Line().put("role", role).put("client", Settings.library());
    about.json("configured", Line.object(described.members()));
    if (hashes) {
      about.put("hashes", true);
    }
    try {
      return Recording.open(run, options.name, about, options.id != null, options.window);
    } catch (IOException unusable) {
      throw new UncheckedIOException("run: cannot record in " + run + ": " + unusable, unusable);
    }
  }
}
