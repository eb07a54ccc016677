package shop;

import highwater.recorder.Options;
import highwater.recorder.Recorded;
import highwater.recorder.RecordedConsumer;
import highwater.recorder.RecordedProducer;
import highwater.recorder.RecordingConsumerInterceptor;
import highwater.recorder.RecordingProducerInterceptor;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * A small application, recorded: what a user of the recorder writes.
 *
 * <p>{@code SCENARIO BOOTSTRAP TOPIC RUN COUNT [NAME=VALUE …]}: settings of the clients follow; one
 * that begins with {@code shop.} is ours.
 */
public final class Shop {
  private static final Duration SECOND = Duration.ofSeconds(1);
  private static final long PATIENCE_MS = 60_000;

  private final String topic;
  private final Path run;
  private final int count;
  private final Map<String, Object> given = new HashMap<>();
  private final Map<String, Object> ours = new HashMap<>();
  private final long began = System.currentTimeMillis();

  private Shop(String[] args) {
    topic = args[2];
    run = Path.of(args[3]);
    count = Integer.parseInt(args[4]);
    given.put("bootstrap.servers", args[1]);
    for (int i = 5; i < args.length; i++) {
      String[] pair = args[i].split("=", 2);
      (pair[0].startsWith("shop.") ? ours : given).put(pair[0], pair[1]);
    }
  }

  public static void main(String[] args) throws Exception {
    Shop shop = new Shop(args);
    switch (args[0]) {
      case "produce":
        shop.produce();
        break;
      case "consume":
        shop.consume();
        break;
      case "healthy":
        shop.produce();
        shop.consume();
        break;
      case "members":
        shop.members();
        break;
      case "transactions":
        shop.transactions();
        break;
      case "intercepted":
        shop.intercepted();
        break;
      case "share":
        shop.given.put("key.deserializer", DESERIALIZER);
        shop.given.put("value.deserializer", DESERIALIZER);
        Sharing.share(shop.given, shop.topic, shop.run, shop.count);
        break;
      default:
        throw new IllegalArgumentException(args[0]);
    }
  }

  private static final String DESERIALIZER = "org.apache.kafka.common.serialization.StringDeserializer";
  private static final String SERIALIZER = "org.apache.kafka.common.serialization.StringSerializer";

  private Map<String, Object> producing() {
    Map<String, Object> conf = new HashMap<>(given);
    conf.put("key.serializer", SERIALIZER);
    conf.put("value.serializer", SERIALIZER);
    conf.keySet().removeIf(name -> name.startsWith("group.") || name.startsWith("auto.offset") || name.startsWith("enable.auto"));
    return conf;
  }

  private Map<String, Object> consuming() {
    Map<String, Object> conf = new HashMap<>(given);
    conf.put("key.deserializer", DESERIALIZER);
    conf.put("value.deserializer", DESERIALIZER);
    conf.putIfAbsent("group.id", topic + "-readers");
    conf.putIfAbsent("auto.offset.reset", "earliest");
    conf.putIfAbsent("enable.auto.commit", "false");
    conf.keySet().removeAll(List.of("acks", "retries", "transactional.id", "enable.idempotence", "linger.ms"));
    return conf;
  }

  private Options options(String name) {
    Options options = Options.named(ours.getOrDefault("shop.name", name).toString());
    return ours.containsKey("shop.hashes") ? options.hashes() : options;
  }

  private void produce() throws Exception {
    Map<String, Object> conf = producing();
    long pause = Long.parseLong(ours.getOrDefault("shop.pause_ms", "0").toString());
    try (RecordedProducer<String, String> producer =
        Recorded.producer(new KafkaProducer<>(conf), conf, run, options("producer"))) {
      for (int number = 0; number < count; number++) {
        producer.send(new ProducerRecord<>(topic, "k" + number % 7, "" + number));
        if (ours.containsKey("shop.dies") && number == count / 2) {
          die();
        }
        if (pause > 0) {
          Thread.sleep(pause);
        }
      }
    }
  }

  private static void die() throws IOException, InterruptedException {
    new ProcessBuilder("kill", "-9", "" + ProcessHandle.current().pid()).start().waitFor();
  }

  private void consume() throws Exception {
    Map<String, Object> conf = consuming();
    boolean early = ours.containsKey("shop.early");
    Options options = options("consumer");
    boolean auto = conf.get("enable.auto.commit").equals("true");
    if (!auto) {
      options = options.commitOrder("process_then_commit");
    }
    RecordedConsumer<String, String> consumer =
        ours.containsKey("shop.instance")
            ? Recorded.consumer(new KafkaConsumer<String, String>(conf), conf, run, options)
            : Recorded.consumer(conf, run, options);
    consumer.subscribe(List.of(topic));
    int seen = 0;
    int until = Integer.parseInt(ours.getOrDefault("shop.until", "" + count).toString());
    while (seen < until && inTime()) {
      ConsumerRecords<String, String> records = consumer.poll(SECOND);
      if (records.isEmpty()) {
        if (ours.containsKey("shop.until_quiet") && seen > 0) {
          break;
        }
        continue;
      }
      if (early) {
        committed(consumer);
      }
      try (var work = consumer.process(records)) {
        seen += records.count();
        work.done();
      }
      if (ours.containsKey("shop.dies") && seen > count / 2) {
        die();
      }
      if (!early && !auto) {
        committed(consumer);
      }
    }
    consumer.close();
  }

  /** Members that come and go: each reads for a while, leaves, and is back as another process. */
  private void members() throws Exception {
    long until = System.currentTimeMillis() + 1000L * count;
    List<Thread> threads = new ArrayList<>();
    for (int member = 0; member < Integer.parseInt(ours.get("shop.members").toString()); member++) {
      int mine = member;
      Random random = new Random(Long.parseLong(ours.get("shop.seed").toString()) + member);
      Thread thread = new Thread(() -> {
        while (System.currentTimeMillis() < until) {
          incarnation("m" + mine, Math.min(until, System.currentTimeMillis() + 3000 + random.nextInt(4000)));
        }
      });
      thread.start();
      threads.add(thread);
    }
    for (Thread thread : threads) {
      thread.join();
    }
  }

  private void incarnation(String name, long until) {
    Options options = Options.named(ours.getOrDefault("shop.name", "").toString() + name);
    Map<String, Object> conf = consuming();
    if (ours.containsKey("shop.intercepted")) {
      conf.put("interceptor.classes", RecordingConsumerInterceptor.class.getName());
      conf.put("highwater.recorder.run", run.toString());
      conf.put("highwater.recorder.name", ours.getOrDefault("shop.name", "").toString() + name);
      try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(conf)) {
        consumer.subscribe(List.of(topic));
        while (System.currentTimeMillis() < until) {
          consumer.poll(Duration.ofMillis(200));
          try {
            consumer.commitSync();
          } catch (KafkaException refused) {
            System.out.println("refused " + refused.getClass().getSimpleName());
          }
        }
      }
      return;
    }
    boolean auto = conf.get("enable.auto.commit").equals("true");
    String order = ours.containsKey("shop.early") ? "commit_then_process" : "process_then_commit";
    try (RecordedConsumer<String, String> consumer =
        Recorded.consumer(conf, run, auto ? options : options.commitOrder(order))) {
      consumer.subscribe(List.of(topic));
      while (System.currentTimeMillis() < until) {
        ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
        if (ours.containsKey("shop.early")) {
          committed(consumer);
          dieIfDue(records);
        }
        work(records.count());
        consumer.processed(records);
        if (!ours.containsKey("shop.early")) {
          dieIfDue(records);
        }
        if (!auto && !ours.containsKey("shop.early")) {
          committed(consumer);
        }
      }
    }
  }

  /** Dies with records between two steps, if it has lived for so long. */
  private void dieIfDue(ConsumerRecords<String, String> records) {
    long after = Long.parseLong(ours.getOrDefault("shop.dies_after_ms", "0").toString());
    if (after == 0 || records.isEmpty() || System.currentTimeMillis() - began < after) {
      return;
    }
    try {
      die();
    } catch (IOException | InterruptedException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  /** Takes as long as the application's work on so many records. */
  private void work(int records) {
    long ms = records * Long.parseLong(ours.getOrDefault("shop.work_us", "0").toString()) / 1000;
    try {
      Thread.sleep(ms);
    } catch (InterruptedException stop) {
      Thread.currentThread().interrupt();
    }
  }

  private void committed(RecordedConsumer<String, String> consumer) {
    try {
      if (ours.containsKey("shop.async")) {
        consumer.commitAsync();
      } else {
        consumer.commitSync();
      }
    } catch (KafkaException refused) {
      System.out.println("refused " + refused.getClass().getSimpleName());
    }
  }

  private boolean inTime() {
    if (System.currentTimeMillis() - began > PATIENCE_MS) {
      throw new IllegalStateException("out of time");
    }
    return true;
  }

  /** Reads, and writes what it read to another topic, in transactions of which a fourth is aborted. */
  private void transactions() throws Exception {
    produce();
    Map<String, Object> sending = producing();
    sending.put("transactional.id", topic + "-till");
    Map<String, Object> reading = consuming();
    reading.put("isolation.level", "read_committed");
    reading.put("max.poll.records", "50");
    RecordedConsumer<String, String> consumer =
        Recorded.consumer(
            new KafkaConsumer<String, String>(reading), reading, run,
            Options.named("mover").commitOrder("transaction"));
    RecordedProducer<String, String> producer =
        Recorded.producer(new KafkaProducer<String, String>(sending), sending, run, "till");
    producer.initTransactions();
    consumer.subscribe(List.of(topic));
    int moved = 0;
    for (int round = 1; moved < count && inTime(); round++) {
      ConsumerRecords<String, String> records = consumer.poll(SECOND);
      if (records.isEmpty()) {
        continue;
      }
      Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
      producer.beginTransaction();
      for (ConsumerRecord<String, String> record : records) {
        producer.send(new ProducerRecord<>(topic + "-moved", record.key(), record.value()));
        ends.put(
            new TopicPartition(record.topic(), record.partition()),
            new OffsetAndMetadata(record.offset() + 1));
      }
      producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
      if (round % 4 == 0) {
        producer.flush();
        producer.abortTransaction();
        for (TopicPartition partition : records.partitions()) {
          consumer.seek(partition, records.records(partition).get(0).offset());
        }
      } else {
        producer.commitTransaction();
        consumer.processed(records);
        moved += records.count();
      }
    }
    producer.close();
    consumer.close();
  }

  /** The same as the healthy one, in an application that knows of no recorder. */
  private void intercepted() throws Exception {
    Map<String, Object> sending = producing();
    sending.put("interceptor.classes", RecordingProducerInterceptor.class.getName());
    sending.put("highwater.recorder.run", run.toString());
    sending.put("highwater.recorder.name", "producer");
    try (KafkaProducer<String, String> producer = new KafkaProducer<>(sending)) {
      for (int number = 0; number < count; number++) {
        producer.send(new ProducerRecord<>(topic, "k" + number % 7, "" + number));
      }
    }
    Map<String, Object> reading = consuming();
    reading.put("interceptor.classes", RecordingConsumerInterceptor.class.getName());
    reading.put("highwater.recorder.run", run.toString());
    reading.put("highwater.recorder.name", "consumer");
    try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading)) {
      consumer.subscribe(List.of(topic));
      for (int seen = 0; seen < count && inTime(); ) {
        seen += consumer.poll(SECOND).count();
        consumer.commitSync();
      }
    }
  }
}
