package highwater.recorder;

import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** One line of JSON of a journal, as it is built. */
final class Line {
  private static final String DIGITS = "0123456789abcdef";

  /** The place of the call in its program. */
  final long seq;

  private final StringBuilder text = new StringBuilder(240).append('{');

  Line() {
    this(-1);
  }

  Line(long seq) {
    this.seq = seq;
    if (seq >= 0) {
      put("seq", seq);
    }
  }

  Line put(String name, long value) {
    name(name).append(value);
    return this;
  }

  Line put(String name, boolean value) {
    name(name).append(value);
    return this;
  }

  /** A field of text; one that is null is left out. */
  Line put(String name, String value) {
    if (value != null) {
      quote(value, name(name));
    }
    return this;
  }

  /** A field whose value is JSON already. */
  Line json(String name, CharSequence value) {
    name(name).append(value);
    return this;
  }

  /** The fields of an object that is JSON already: those between its braces. */
  Line fields(String members) {
    if (!members.isEmpty()) {
      comma().append(members);
    }
    return this;
  }

  Line texts(String name, Collection<String> values) {
    StringBuilder out = name(name).append('[');
    for (String value : values) {
      quote(value, after(out, '['));
    }
    out.append(']');
    return this;
  }

  /** Partitions as the trace names them, in order: sets have none. */
  Line partitions(Collection<TopicPartition> partitions) {
    TreeMap<String, Boolean> named = new TreeMap<>();
    if (partitions != null) {
      partitions.forEach(one -> named.put(named(one), true));
    }
    return texts("partitions", named.keySet());
  }

  /** Offsets by partition; whoever has none is left out. */
  Line offsets(Map<TopicPartition, OffsetAndMetadata> positions) {
    TreeMap<String, Long> named = new TreeMap<>();
    if (positions != null) {
      positions.forEach((where, at) -> named.put(named(where), at == null ? null : at.offset()));
    }
    return numbers("offsets", named);
  }

  Line numbers(String name, Map<String, Long> values) {
    StringBuilder out = name(name).append('{');
    values.forEach((key, number) -> {
      if (number != null && number >= 0) {
        quote(key, after(out, '{')).append(':').append(number.longValue());
      }
    });
    out.append('}');
    return this;
  }

  Line texts(String name, Map<String, String> values) {
    StringBuilder out = name(name).append('{');
    values.forEach((key, value) -> {
      quote(key, after(out, '{')).append(':');
      quote(value, out);
    });
    out.append('}');
    return this;
  }

  /** The fields so far, as they stand between braces. */
  String members() {
    return text.substring(1);
  }

  byte[] bytes() {
    return text.append('}').toString().getBytes(StandardCharsets.UTF_8);
  }

  static String named(TopicPartition partition) {
    return partition.topic() + ":" + partition.partition();
  }

  static String object(String members) {
    return "{" + members + "}";
  }

  private StringBuilder name(String name) {
    return comma().append('"').append(name).append("\":");
  }

  private StringBuilder comma() {
    return after(text, '{');
  }

  private static StringBuilder after(StringBuilder out, char open) {
    return out.charAt(out.length() - 1) == open ? out : out.append(',');
  }

  private static StringBuilder quote(String value, StringBuilder out) {
    out.append('"');
    for (int i = 0; i < value.length(); i++) {
      char c = value.charAt(i);
      if (c == '"' || c == '\\') {
        out.append('\\').append(c);
      } else if (c < ' ') {
        out.append("\\u00").append(DIGITS.charAt(c >> 4)).append(DIGITS.charAt(c & 15));
      } else {
        out.append(c);
      }
    }
    return out.append('"');
  }
}
