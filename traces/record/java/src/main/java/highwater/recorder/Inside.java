package highwater.recorder;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Map;
import org.apache.kafka.clients.Metadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.internals.SubscriptionState;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.TopicPartition;

/**
 * The inside of Kafka's own clients, for what their interfaces do not offer.
 *
 * <p>It is only read. A client of another make, and a version that has these things elsewhere,
 * leaves them unknown.
 */
final class Inside {
  private final Object client;
  private final Object transactions;
  private final Metadata metadata;
  private final SubscriptionState subscriptions;

  Inside(Object client) {
    Object delegate = field(client, "delegate");
    this.client = delegate == null ? client : delegate;
    this.transactions = field(client, "transactionManager");
    Object known = field(this.client, "metadata");
    this.metadata = known instanceof Metadata ? (Metadata) known : null;
    Object state = field(this.client, "subscriptions");
    this.subscriptions = state instanceof SubscriptionState ? (SubscriptionState) state : null;
  }

  /** The cluster as the client knows it, or null. */
  Cluster cluster() {
    return metadata == null ? null : metadata.fetch();
  }

  /** The last time that the client learnt of all its topics, by the wall clock in ms; 0 if never. */
  long learntAt() {
    return metadata == null ? 0 : metadata.lastSuccessfulUpdate();
  }

  /** Positions that a commit without offsets would commit, or null where nobody knows. */
  Map<TopicPartition, OffsetAndMetadata> consumed() {
    return subscriptions == null ? null : subscriptions.allConsumed();
  }

  /** The serializer of a producer's keys or values, which may have been given as an instance. */
  Object serializer(String what) {
    Object plain = field(client, what + "Serializer");
    return plain != null ? plain : call(field(client, what + "SerializerPlugin"), "get");
  }

  Object deserializer(String what) {
    Object both = field(client, "deserializers");
    Object plain = field(both, what + "Deserializer");
    return plain != null ? plain : call(field(both, what + "DeserializerPlugin"), "get");
  }

  /** True if a transactional producer can but abort, or less: nothing more is asked for it. */
  boolean mustAbort() {
    return Boolean.TRUE.equals(call(transactions, "hasAbortableError"));
  }

  /** True if the producer refuses by itself whatever it is asked for. */
  boolean hasFailed() {
    return Boolean.TRUE.equals(call(transactions, "hasError"));
  }

  /** The producer's id and its epoch, or null. */
  long[] identity() {
    Object known = call(transactions, "producerIdAndEpoch");
    Object id = field(known, "producerId");
    Object epoch = field(known, "epoch");
    if (!(id instanceof Long) || !(epoch instanceof Short) || (Long) id < 0) {
      return null;
    }
    return new long[] {(Long) id, (Short) epoch};
  }

  /** Calls a method of an interface that this version has and the compiled one has not. */
  @SuppressWarnings("unchecked")
  static <T> T former(Class<?> type, Object client, String method, Class<?>[] types, Object... given) {
    try {
      return (T) type.getMethod(method, types).invoke(client, given);
    } catch (java.lang.reflect.InvocationTargetException thrown) {
      Throwable cause = thrown.getCause();
      if (cause instanceof Error) {
        throw (Error) cause;
      }
      throw cause instanceof RuntimeException
          ? (RuntimeException) cause : new IllegalStateException(cause);
    } catch (ReflectiveOperationException absent) {
      throw new UnsupportedOperationException(
          method + ": this version of kafka-clients does not have it", absent);
    }
  }

  private static Object field(Object of, String name) {
    for (Class<?> type = of == null ? null : of.getClass(); type != null; type = type.getSuperclass()) {
      try {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(of);
      } catch (NoSuchFieldException above) {
        continue;
      } catch (IllegalAccessException | RuntimeException hidden) {
        return null;
      }
    }
    return null;
  }

  private static Object call(Object of, String name) {
    for (Class<?> type = of == null ? null : of.getClass(); type != null; type = type.getSuperclass()) {
      try {
        Method method = type.getDeclaredMethod(name);
        method.setAccessible(true);
        return method.invoke(of);
      } catch (NoSuchMethodException above) {
        continue;
      } catch (ReflectiveOperationException | RuntimeException hidden) {
        return null;
      }
    }
    return null;
  }
}
