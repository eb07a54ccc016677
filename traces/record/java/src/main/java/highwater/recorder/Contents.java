package highwater.recorder;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.zip.CRC32;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The bytes of keys and values, where a client's serializers are Kafka's own.
 *
 * <p>Those are pure functions, of which two calls give the same. Of other serializers the bytes stay
 * unknown: they may ask a registry, or change the headers.
 */
final class Contents {
  private static final String KAFKAS = "org.apache.kafka.common.serialization.";
  /** A deserializer puts it in place of bytes that are no text: then they are not known any more. */
  private static final char REPLACED = '\uFFFD';

  private final Serializer<Object> keys;
  private final Serializer<Object> values;
  private final boolean hashes;

  private Contents(Serializer<Object> keys, Serializer<Object> values, boolean hashes) {
    this.keys = keys;
    this.values = values;
    this.hashes = hashes;
  }

  static Contents sent(Map<String, ?> conf, Inside inside, boolean hashes) {
    return new Contents(
        like(conf, inside.serializer("key"), "key.serializer", true),
        like(conf, inside.serializer("value"), "value.serializer", false),
        hashes);
  }

  static Contents read(Map<String, ?> conf, Inside inside, boolean hashes) {
    return new Contents(
        like(conf, inside.deserializer("key"), "key.deserializer", true),
        like(conf, inside.deserializer("value"), "value.deserializer", false),
        hashes);
  }

  boolean hashes() {
    return hashes;
  }

  /** The key as it stands in the log; null where there is none or nobody knows. */
  byte[] key(String topic, Object key) {
    return bytes(keys, topic, key);
  }

  /** The hash of a message, or null where its bytes are not known. */
  Long hash(String topic, Object key, Object value, Headers headers) {
    byte[] rawKey = bytes(keys, topic, key);
    byte[] rawValue = bytes(values, topic, value);
    if (!hashes || key != null && rawKey == null || value != null && rawValue == null) {
      return null;
    }
    CRC32 sum = new CRC32();
    part(sum, rawKey);
    part(sum, rawValue);
    for (Header header : headers) {
      if (!header.key().equals(Ids.HEADER)) {
        part(sum, header.key().getBytes(StandardCharsets.UTF_8));
        part(sum, header.value());
      }
    }
    return sum.getValue();
  }

  private static void part(CRC32 sum, byte[] part) {
    int size = part == null ? -1 : part.length;
    for (int bits = 24; bits >= 0; bits -= 8) {
      sum.update(size >> bits);
    }
    if (part != null) {
      sum.update(part);
    }
  }

  private static byte[] bytes(Serializer<Object> serializer, String topic, Object given) {
    if (given == null || serializer == null) {
      return null;
    }
    if (given instanceof byte[]) {
      return (byte[]) given;
    }
    if (given instanceof String && ((String) given).indexOf(REPLACED) >= 0) {
      return null;
    }
    try {
      return serializer.serialize(topic, given);
    } catch (RuntimeException refused) {
      return null;
    }
  }

  /** A serializer of the kind that the client has, or that is the other half of its deserializer. */
  private static Serializer<Object> like(Map<String, ?> conf, Object used, String setting, boolean key) {
    Object named = used != null ? used : conf.get(setting);
    String name = named instanceof Class ? ((Class<?>) named).getName() : null;
    if (name == null && named != null) {
      name = named instanceof String ? (String) named : named.getClass().getName();
    }
    if (name == null || !name.startsWith(KAFKAS) || name.contains("ByteBuffer") || name.contains("List")) {
      return null;
    }
    return made(name.replace("Deserializer", "Serializer"), conf, key);
  }

  @SuppressWarnings("unchecked")
  private static Serializer<Object> made(String name, Map<String, ?> conf, boolean key) {
    try {
      Object made = Class.forName(name).getDeclaredConstructor().newInstance();
      Serializer<Object> serializer = (Serializer<Object>) made;
      if (made instanceof StringSerializer) {
        serializer.configure(encodings(conf), key);
      }
      return serializer;
    } catch (ReflectiveOperationException | RuntimeException unknown) {
      return null;
    }
  }

  /** The settings of a deserializer, as those of the serializer that it undoes. */
  private static Map<String, Object> encodings(Map<String, ?> conf) {
    Map<String, Object> found = new java.util.HashMap<>(conf);
    conf.forEach((name, value) -> {
      if (name.endsWith("deserializer.encoding")) {
        found.put(name.replace("deserializer", "serializer"), value);
      }
    });
    return found;
  }
}
