package shop;

import com.sun.management.OperatingSystemMXBean;
import highwater.recorder.Options;
import highwater.recorder.Recorded;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * A producer that is paced, plain and recorded in turn, with the CPU time that each takes.
 *
 * <p>{@code BOOTSTRAP TOPIC RUN ROUNDS SECONDS RATE}; a rate of 0 is full speed. A line for each
 * round: which it is, messages acknowledged, nanoseconds, and nanoseconds of CPU.
 */
final class Pace {
  private static final byte[] PADDING = new byte[900];
  private static final long MS = 1_000_000;

  private Pace() {}

  public static void main(String[] args) throws Exception {
    Map<String, Object> conf = new HashMap<>();
    conf.put("bootstrap.servers", args[0]);
    conf.put("acks", "all");
    conf.put("linger.ms", "5");
    conf.put("buffer.memory", "134217728");
    String bytes = "org.apache.kafka.common.serialization.ByteArraySerializer";
    conf.put("key.serializer", bytes);
    conf.put("value.serializer", bytes);
    java.util.Arrays.fill(PADDING, (byte) 'x');
    int rounds = Integer.parseInt(args[3]);
    for (int round = -2; round < 2 * rounds; round++) {
      boolean recorded = Math.floorMod(round, 2) == 1;
      Producer<byte[], byte[]> producer = new KafkaProducer<>(conf);
      if (recorded) {
        producer = Recorded.producer(producer, conf, Path.of(args[2]), Options.named("bench"));
      }
      long[] took = round(producer, args[1], Double.parseDouble(args[4]), Long.parseLong(args[5]));
      if (round >= 0) {
        System.out.printf("%s %d %d %d%n", recorded ? "recorded" : "plain", took[0], took[1], took[2]);
      }
    }
  }

  private static long[] round(Producer<byte[], byte[]> producer, String topic, double seconds, long rate) {
    OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    AtomicLong stored = new AtomicLong();
    producer.partitionsFor(topic);
    long cpu = system.getProcessCpuTime();
    long began = System.nanoTime();
    long until = began + (long) (seconds * 1e9);
    for (long number = 0; System.nanoTime() < until; number++) {
      long due = rate == 0 ? 0 : began + number * 1_000_000_000 / rate;
      while (System.nanoTime() < due) {
        LockSupport.parkNanos(MS);
      }
      producer.send(new ProducerRecord<>(topic, message(number)), (metadata, error) -> {
        if (error == null) {
          stored.incrementAndGet();
        }
      });
    }
    producer.flush();
    long took = System.nanoTime() - began;
    long spent = system.getProcessCpuTime() - cpu;
    producer.close();
    return new long[] {stored.get(), took, spent};
  }

  /** A document of 1 KB, made anew as an application does. */
  private static byte[] message(long number) {
    StringBuilder text = new StringBuilder(1024).append("{\"order\":").append(number);
    text.append(",\"at\":").append(System.currentTimeMillis()).append(",\"padding\":\"");
    for (byte one : PADDING) {
      text.append((char) one);
    }
    return text.append("\"}").toString().getBytes(StandardCharsets.UTF_8);
  }
}
