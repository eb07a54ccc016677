package highwater.recorder;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Stories of the recorder around Kafka's own stand-ins for clients, for tests without brokers. */
final class Stories {
  private static final Map<String, Object> PLAIN = Map.of("enable.idempotence", "false");

  private Stories() {}

  public static void main(String[] given) throws Exception {
    Path run = Path.of(given[1]);
    switch (given[0]) {
      case "outcomes":
        outcomes();
        break;
      case "settings":
        settings();
        break;
      case "contents":
        contents();
        break;
      case "producer":
        producer(run);
        break;
      case "mistakes":
        mistakes(run);
        break;
      case "arguments":
        arguments(run);
        break;
      default:
        consumer(run);
    }
  }

  /** Each of Kafka's errors: of a send's report without retries and with them, and of a commit. */
  private static void outcomes() {
    TopicPartition one = new TopicPartition("t", 0);
    Map<TopicPartition, OffsetAndMetadata> alone = Map.of(one, new OffsetAndMetadata(1));
    Map<TopicPartition, OffsetAndMetadata> several = new HashMap<>(alone);
    several.put(new TopicPartition("u", 0), new OffsetAndMetadata(1));
    for (Errors error : Errors.values()) {
      if (error != Errors.NONE && error != Errors.UNKNOWN_SERVER_ERROR) {
        ApiException raised = error.exception();
        System.out.println(String.join(" ", error.name(), Words.error(raised),
            Outcomes.ofReport(raised, 0), Outcomes.ofReport(raised, 5),
            Outcomes.ofCommit(raised, alone, 1, 2), Outcomes.ofCommit(raised, several, 1, 2),
            Outcomes.ofCommit(raised, alone, 2, 2)));
      }
    }
  }

  /** Configurations, and how Kafka's own class and ours complete them. */
  private static void settings() {
    List<Map<String, Object>> all = new ArrayList<>();
    for (String acks : List.of("", "all", "-1", "1", "0")) {
      for (String idempotence : List.of("", "true", "false")) {
        for (String retries : List.of("", "0")) {
          for (String inFlight : List.of("", "6")) {
            for (String transactional : List.of("", "x")) {
              Map<String, Object> conf = new LinkedHashMap<>();
              put(conf, "acks", acks);
              put(conf, "enable.idempotence", idempotence);
              put(conf, "retries", retries);
              put(conf, "max.in.flight.requests.per.connection", inFlight);
              put(conf, "transactional.id", transactional);
              all.add(conf);
            }
          }
        }
      }
    }
    for (Map<String, Object> conf : all) {
      Map<String, Object> whole = new HashMap<>(conf);
      whole.put("bootstrap.servers", "localhost:1");
      whole.put("key.serializer", ByteArraySerializer.class);
      whole.put("value.serializer", ByteArraySerializer.class);
      ProducerConfig theirs;
      try {
        theirs = new ProducerConfig(whole);
      } catch (KafkaException refused) {
        continue;
      }
      Settings ours = Settings.producer(conf);
      System.out.println(ours.idempotent() + " " + theirs.getBoolean("enable.idempotence") + " " + conf);
    }
  }

  private static void put(Map<String, Object> conf, String name, String value) {
    if (!value.isEmpty()) {
      conf.put(name, value);
    }
  }

  /** Of each line (a key, a value, a header) the hash, and the key as text. */
  private static void contents() throws Exception {
    String bytes = ByteArraySerializer.class.getName();
    Map<String, Object> conf = Map.of("key.serializer", bytes, "value.serializer", bytes);
    Contents contents = Contents.sent(conf, new Inside(null), true);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.split(" ", -1);
      byte[] key = raw(words[0]);
      RecordHeaders headers = new RecordHeaders();
      headers.add("h", raw(words[2]));
      headers.add(Ids.HEADER, new byte[8]);
      System.out.println(contents.hash("t", key, raw(words[1]), headers) + " "
          + (key == null ? "-" : new String(Base64.getEncoder().encode(Texts.of(key).getBytes(UTF_8)), UTF_8)));
    }
  }

  private static byte[] raw(String text) {
    return text.equals("-") ? null : Base64.getDecoder().decode(text);
  }

  private static MockProducer<byte[], byte[]> mock(boolean answers) {
    ByteArraySerializer bytes = new ByteArraySerializer();
    return new MockProducer<>(answers, null, bytes, bytes);
  }

  private static ProducerRecord<byte[], byte[]> record(String value) {
    return new ProducerRecord<>("t", value.getBytes(UTF_8));
  }

  /** Reports of all kinds, a record that is sent twice, and one that was forwarded with its id. */
  private static void producer(Path run) {
    MockProducer<byte[], byte[]> mock = mock(false);
    Map<String, Object> conf = new HashMap<>(PLAIN);
    conf.put("key.serializer", ByteArraySerializer.class);
    RecordedProducer<byte[], byte[]> producer = Recorded.producer(mock, conf, run, "p");
    producer.send(record("stored"));
    mock.completeNext();
    producer.send(record("too large"), (metadata, error) -> {});
    mock.errorNext(new RecordTooLargeException("too large"));
    producer.send(record("unknown"));
    mock.errorNext(new OutOfOrderSequenceException("?"));
    ProducerRecord<byte[], byte[]> again =
        new ProducerRecord<>("t", 0, "k".getBytes(UTF_8), "again".getBytes(UTF_8));
    again.headers().add(Ids.HEADER, new byte[8]);
    producer.send(again);
    producer.send(again);
    System.out.println(again.headers().toArray().length);
    mock.history().forEach(one -> {
      int ids = 0;
      for (var ignored : one.headers().headers(Ids.HEADER)) {
        ids++;
      }
      System.out.println(ids + " " + Ids.inHeader(one.headers()));
    });
    mock.completeNext();
    mock.sendException = new IllegalStateException("closed");
    try {
      producer.send(record("refused"));
    } catch (IllegalStateException expected) {
      System.out.println("raised " + expected.getMessage());
    }
    mock.sendException = null;
    mock.closeException = new ProducerFencedException("fenced");
    try {
      producer.close();
    } catch (ProducerFencedException expected) {
      System.out.println("raised " + expected.getMessage());
    }
  }

  /** Mistakes of the recorder and of what it calls: the application sees none of ours. */
  private static void mistakes(Path run) throws Exception {
    MockProducer<byte[], byte[]> mock = mock(true);
    Options wrong = Options.named("p").id(message -> {
      throw new IllegalStateException("the application's id");
    });
    RecordedProducer<byte[], byte[]> producer = Recorded.producer(mock, PLAIN, run, wrong);
    producer.send(record("a")).get();
    // The file is gone under the recorder, and its disk is full.
    Recording broken = Recording.open(run, "broken", new Line().put("role", "producer"), false, 4096);
    broken.broken(new IllegalStateException("a mistake of ours"));
    broken.note("seek", 1, line -> line.put("still", "silent"));
    broken.end("close", 1);
    System.out.println(mock.history().size());
    producer.close();
  }

  private static void arguments(Path run) {
    List<Runnable> wrong = List.of(
        () -> Options.named("a/b"),
        () -> Options.named("p").commitOrder("later"),
        () -> Recorded.producer(mock(true), Map.of("acks", "some"), run, "p"),
        () -> Recorded.producer(mock(true), null, run, "p"),
        () -> Recorded.producer(mock(true), PLAIN, Path.of("/proc/no/folder"), "p"),
        () -> new RecordingProducerInterceptor<String, String>().configure(Map.of()));
    for (Runnable call : wrong) {
      try {
        call.run();
        System.out.println("nothing");
      } catch (RuntimeException refusal) {
        System.out.println(refusal.getClass().getSimpleName() + ": " + refusal.getMessage());
      }
    }
  }

  /** All that a consumer is asked for. */
  private static void consumer(Path run) {
    MockConsumer<String, String> mock = new Consumers().made();
    Map<String, Object> conf = new HashMap<>();
    conf.put("group.id", "g");
    conf.put("enable.auto.commit", "false");
    conf.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
    RecordedConsumer<String, String> consumer = Recorded.consumer(
        mock, conf, run, Options.named("c").commitOrder("process_then_commit"));
    TopicPartition zero = new TopicPartition("t", 0);
    List<String> events = new ArrayList<>();
    consumer.subscribe(Set.of("t"), new ConsumerRebalanceListener() {
      @Override
      public void onPartitionsAssigned(java.util.Collection<TopicPartition> partitions) {
        events.add("assigned " + partitions);
      }

      @Override
      public void onPartitionsRevoked(java.util.Collection<TopicPartition> partitions) {
        events.add("revoked " + partitions);
      }
    });
    mock.rebalance(List.of(zero));
    mock.updateBeginningOffsets(Map.of(zero, 0L));
    mock.updateEndOffsets(Map.of(zero, 2L));
    mock.seek(zero, 0);
    for (int offset = 0; offset < 3; offset++) {
      mock.addRecord(new ConsumerRecord<>("t", 0, offset, "k", "v" + offset));
    }
    ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(10));
    consumer.commitSync();
    try (Processing work = consumer.process(records)) {
      work.done();
    }
    consumer.process(records).close();
    consumer.processed(records.records(zero).get(1));
    Thread other = new Thread(() -> consumer.processed(records));
    other.start();
    join(other);
    consumer.commitAsync(Map.of(zero, new OffsetAndMetadata(2)), (offsets, error) -> events.add("committed"));
    consumer.committed(Set.of(zero));
    consumer.seek(zero, 1);
    consumer.seekToEnd(List.of());
    consumer.pause(List.of(zero));
    consumer.resume(List.of(zero));
    consumer.endOffsets(List.of(zero));
    mock.rebalance(List.of());
    consumer.unsubscribe();
    consumer.close();
    System.out.println(String.join("\n", events));
  }

  private static void join(Thread thread) {
    try {
      thread.join();
    } catch (InterruptedException stop) {
      Thread.currentThread().interrupt();
    }
  }

  /** The stand-in of a consumer, which is made in two ways. */
  private static final class Consumers {
    @SuppressWarnings("unchecked")
    MockConsumer<String, String> made() {
      try {
        return MockConsumer.class.getConstructor(String.class).newInstance("earliest");
      } catch (ReflectiveOperationException former) {
        return former();
      }
    }

    @SuppressWarnings("unchecked")
    private MockConsumer<String, String> former() {
      try {
        Class<?> reset = Class.forName("org.apache.kafka.clients.consumer.OffsetResetStrategy");
        Object earliest = reset.getField("EARLIEST").get(null);
        return MockConsumer.class.getConstructor(reset).newInstance(earliest);
      } catch (ReflectiveOperationException unknown) {
        throw new IllegalStateException(unknown);
      }
    }
  }
}
