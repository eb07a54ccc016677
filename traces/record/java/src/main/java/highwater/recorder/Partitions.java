package highwater.recorder;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.TopicDescription;

/** The question for all partitions of topics, which a share consumer's interface has not. */
final class Partitions {
  private static final int PATIENCE_MS = 2_000;

  private Partitions() {}

  /** All partitions of these topics as the trace names them; none where nobody answers in time. */
  static List<String> of(Collection<String> topics, Map<String, ?> conf) {
    Map<String, Object> shared = new HashMap<>(conf);
    shared.keySet().retainAll(AdminClientConfig.configNames());
    shared.keySet().removeAll(List.of("metric.reporters", "config.providers"));
    shared.put("client.id", "highwater-recorder");
    Admin admin = Admin.create(shared);
    try {
      DescribeTopicsOptions options = new DescribeTopicsOptions().timeoutMs(PATIENCE_MS);
      return named(topics, admin.describeTopics(topics, options).allTopicNames()
          .get(PATIENCE_MS, TimeUnit.MILLISECONDS));
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      return List.of();
    } catch (ExecutionException | TimeoutException unanswered) {
      return List.of();
    } finally {
      admin.close(Duration.ZERO);
    }
  }

  private static List<String> named(Collection<String> topics, Map<String, TopicDescription> found) {
    List<String> names = new ArrayList<>();
    for (String topic : topics) {
      found.get(topic).partitions().forEach(one -> names.add(topic + ":" + one.partition()));
    }
    return names;
  }
}
