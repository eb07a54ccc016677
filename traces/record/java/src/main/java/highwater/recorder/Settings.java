package highwater.recorder;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/** A client's configuration: Kafka's defaults filled in, and in the words of {@code meta.json}. */
final class Settings {
  /** No client waits less before it repeats a commit, unless its back-off is shorter. */
  private static final long FIRST_ATTEMPT_NS = 50_000_000;

  private final Map<String, ?> given;
  private final Map<String, Object> parsed;

  private Settings(Map<String, ?> given, Map<String, Object> parsed) {
    this.given = given;
    this.parsed = parsed;
  }

  static Settings producer(Map<?, ?> conf) {
    return of(conf, ProducerConfig.configDef(), "serializer", ByteArraySerializer.class);
  }

  static Settings consumer(Map<?, ?> conf) {
    return of(conf, ConsumerConfig.configDef(), "deserializer", ByteArrayDeserializer.class);
  }

  private static Settings of(Map<?, ?> conf, ConfigDef known, String halves, Class<?> any) {
    if (conf == null) {
      throw new IllegalArgumentException("conf: expected the client's configuration, found null");
    }
    Map<String, Object> given = new HashMap<>();
    names(conf).forEach(name -> given.put(name, conf instanceof Properties
        ? valueOf((Properties) conf, name) : conf.get(name)));
    Map<String, Object> whole = new HashMap<>(given);
    for (String half : List.of("key." + halves, "value." + halves)) {
      whole.putIfAbsent(half, any);
    }
    whole.putIfAbsent("bootstrap.servers", "unknown:1");
    try {
      return new Settings(given, known.parse(whole));
    } catch (ConfigException mistaken) {
      throw new IllegalArgumentException("conf: " + mistaken.getMessage(), mistaken);
    }
  }

  private static Object valueOf(Properties conf, String name) {
    String text = conf.getProperty(name);
    return text == null ? conf.get(name) : text;
  }

  private static List<String> names(Map<?, ?> conf) {
    List<String> names = new ArrayList<>();
    if (conf instanceof Properties) {
      names.addAll(((Properties) conf).stringPropertyNames());
    }
    for (Object name : conf.keySet()) {
      if (name instanceof String && !names.contains(name)) {
        names.add((String) name);
      }
    }
    return names;
  }

  /** The settings as they were given, by name. */
  Map<String, ?> given() {
    return given;
  }

  String text(String name) {
    Object value = parsed.get(name);
    return value == null ? null : value.toString();
  }

  private int number(String name) {
    return ((Number) parsed.get(name)).intValue();
  }

  private boolean flag(String name) {
    return Boolean.TRUE.equals(parsed.get(name));
  }

  private static String lower(String text) {
    return text == null ? null : text.toLowerCase(Locale.ROOT);
  }

  String group() {
    String group = text("group.id");
    return group == null || group.isEmpty() ? null : group;
  }

  int retries() {
    return number("retries");
  }

  String transactionalId() {
    return text("transactional.id");
  }

  String acks() {
    String acks = text("acks");
    return acks.equals("-1") ? "all" : acks;
  }

  /** As the producer itself decides: what was not asked for gives way to what was. */
  boolean idempotent() {
    if (transactionalId() != null || given.containsKey("enable.idempotence")) {
      return transactionalId() != null || flag("enable.idempotence");
    }
    boolean few = number("max.in.flight.requests.per.connection") <= 5;
    return flag("enable.idempotence") && acks().equals("all") && retries() != 0 && few;
  }

  /** The number of interceptors, which may change a record behind the recorder or before it. */
  int interceptors() {
    Object named = parsed.get("interceptor.classes");
    return named instanceof List ? ((List<?>) named).size() : 0;
  }

  /** A refusal of a commit that took longer than this may be that of a second attempt. */
  long firstAttempt() {
    long backOff = ((Number) parsed.get("retry.backoff.ms")).longValue();
    return Math.min(FIRST_ATTEMPT_NS, backOff * 500_000);
  }

  /** The settings of a producer, with so many interceptors of ours. */
  Line describedProducer(int ours) {
    Line said = new Line()
        .put("acks", acks())
        .put("idempotence", idempotent())
        .put("max_in_flight", number("max.in.flight.requests.per.connection"))
        .put("retries", retries())
        .put("delivery_timeout_ms", number("delivery.timeout.ms"))
        .put("partitioner", interceptors() > ours ? "behind interceptors" : partitioner());
    if (transactionalId() != null) {
      said.put("transactional_id", transactionalId());
      said.put("transaction_timeout_ms", number("transaction.timeout.ms"));
    }
    return said;
  }

  private String partitioner() {
    Object named = parsed.get("partitioner.class");
    if (named != null) {
      return named instanceof Class ? ((Class<?>) named).getName() : named.toString();
    }
    return flag("partitioner.ignore.keys") ? "default, without keys" : "default";
  }

  Line describedConsumer(String commitOrder) {
    // Without a group nothing is ever committed, whatever the switch says.
    boolean auto = flag("enable.auto.commit") && group() != null;
    String order = commitOrder == null && auto ? "auto" : commitOrder;
    String instance = text("group.instance.id");
    return new Line()
        .put("isolation", lower(text("isolation.level")))
        .put("auto_commit", auto)
        .put("auto_offset_reset", lower(text("auto.offset.reset")))
        .put("group_protocol", lower(text("group.protocol")))
        .put("session_timeout_ms", number("session.timeout.ms"))
        .put("commit_order", order)
        .put("rack", text("client.rack") == null ? "" : text("client.rack"))
        .put("group", group())
        .put("group_instance_id", instance == null || instance.isEmpty() ? null : instance);
  }

  /** The fields that name the group on its calls, as JSON between braces. */
  String grouped() {
    String instance = text("group.instance.id");
    Line line = new Line().put("group", group());
    if (group() != null && instance != null && !instance.isEmpty()) {
      line.put("instance", instance);
    }
    return line.members();
  }

  String isolation() {
    return lower(text("isolation.level"));
  }

  /** The library, its version and that of Java. */
  static String library() {
    return "kafka-clients " + AppInfoParser.getVersion() + ", Java " + Runtime.version().feature();
  }
}
