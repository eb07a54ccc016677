package shop;

import highwater.recorder.Options;
import highwater.recorder.Recorded;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.ShareConsumer;

/** A member of a share group, recorded; apart, for older clients have no share consumer. */
final class Sharing {
  private Sharing() {}

  static void share(Map<String, Object> conf, String topic, Path run, int count) {
    conf.put("share.acknowledgement.mode", "explicit");
    ShareConsumer<String, String> consumer =
        Recorded.shareConsumer(
            new KafkaShareConsumer<String, String>(conf), conf, run, Options.named("sharer"));
    consumer.subscribe(List.of(topic));
    long until = System.currentTimeMillis() + 60_000;
    int accepted = 0;
    while (accepted < count && System.currentTimeMillis() < until) {
      for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
        boolean again = record.offset() % 10 == 0 && record.deliveryCount().orElse((short) 1) == 1;
        consumer.acknowledge(record, again ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
        accepted += again ? 0 : 1;
      }
      consumer.commitSync();
    }
    consumer.close();
  }
}
