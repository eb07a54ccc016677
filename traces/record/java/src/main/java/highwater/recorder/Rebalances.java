package highwater.recorder;

import java.util.Collection;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.common.TopicPartition;

/** The listener of a subscription, in front of the application's own. */
final class Rebalances implements ConsumerRebalanceListener {
  private final RecordedConsumer<?, ?> consumer;
  private final ConsumerRebalanceListener users;

  Rebalances(RecordedConsumer<?, ?> consumer, ConsumerRebalanceListener users) {
    this.consumer = consumer;
    this.users = users;
  }

  @Override
  public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
    consumer.rebalanced("assigned", Clock.now(), partitions, consumer.membership());
    if (users != null) {
      users.onPartitionsAssigned(partitions);
    }
  }

  @Override
  public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
    Runnable call = users == null ? null : () -> users.onPartitionsRevoked(partitions);
    givingUp("revoked", partitions, call);
  }

  @Override
  public void onPartitionsLost(Collection<TopicPartition> partitions) {
    Runnable call = users == null ? null : () -> users.onPartitionsLost(partitions);
    givingUp("lost", partitions, call);
  }

  /** The line follows what the application still does with the partitions. */
  private void givingUp(String op, Collection<TopicPartition> partitions, Runnable call) {
    long invoked = Clock.now();
    String held = consumer.membership();
    try {
      if (call != null) {
        call.run();
      }
    } finally {
      if (!partitions.isEmpty()) {
        consumer.rebalanced(op, invoked, partitions, held);
      }
    }
  }
}
