package highwater.recorder;

import java.nio.ByteBuffer;
import java.util.function.Function;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeader;

/** The ids of messages: the application's own, or those of the header that the recorder adds. */
final class Ids {
  static final String HEADER = "highwater-id";
  /** The place of an id where there is none. */
  static final long NONE = Long.MIN_VALUE;

  private final Function<Message, Object> own;

  Ids(Function<Message, Object> own) {
    this.own = own;
  }

  boolean areOwn() {
    return own != null;
  }

  /** The id that a message carries: a Long, text, or null. */
  Object of(String topic, Object key, Object value, Headers headers) {
    if (own != null) {
      try {
        return asId(own.apply(new Message(topic, key, value, headers)));
      } catch (RuntimeException unknown) {
        return null;
      }
    }
    long number = inHeader(headers);
    return number == NONE ? null : (Object) number;
  }

  private static Object asId(Object id) {
    if (id == null || id instanceof Long) {
      return id;
    }
    boolean whole = id instanceof Integer || id instanceof Short || id instanceof Byte;
    return whole ? (Object) ((Number) id).longValue() : id.toString();
  }

  static long inHeader(Headers headers) {
    Header header = headers.lastHeader(HEADER);
    byte[] value = header == null ? null : header.value();
    return value == null || value.length != Long.BYTES ? NONE : ByteBuffer.wrap(value).getLong();
  }

  /** The same record with this id in a header of ours, and with nobody else's in it. */
  static <K, V> ProducerRecord<K, V> marked(ProducerRecord<K, V> record, long id) {
    ProducerRecord<K, V> marked =
        new ProducerRecord<>(
            record.topic(),
            record.partition(),
            record.timestamp(),
            record.key(),
            record.value(),
            record.headers());
    Headers headers = marked.headers();
    if (headers.lastHeader(HEADER) != null) {
      headers.remove(HEADER);
    }
    headers.add(new RecordHeader(HEADER, ByteBuffer.allocate(Long.BYTES).putLong(id).array()));
    return marked;
  }
}
