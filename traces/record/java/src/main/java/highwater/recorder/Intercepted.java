package highwater.recorder;

import java.nio.file.Path;
import java.util.Locale;
import java.util.Map;
import org.apache.kafka.common.config.ConfigException;

/** The settings of an interceptor: what to record, and where. */
final class Intercepted {
  static final String RUN = "highwater.recorder.run";
  static final String NAME = "highwater.recorder.name";
  static final String COMMIT_ORDER = "highwater.recorder.commit.order";
  static final String HASHES = "highwater.recorder.hashes";

  private Intercepted() {}

  /** The run's folder. */
  static Path run(Map<String, ?> configs) {
    Object run = configs.get(RUN);
    if (run == null || run.toString().isBlank()) {
      throw new ConfigException(RUN + ": expected the folder of the run, found nothing");
    }
    return Path.of(run.toString());
  }

  static Options options(Map<String, ?> configs, String role) {
    try {
      Options options = Options.named(name(configs, role));
      Object order = configs.get(COMMIT_ORDER);
      options = order == null ? options : options.commitOrder(order.toString());
      Object hashes = configs.get(HASHES);
      boolean hashed = hashes != null && hashes.toString().toLowerCase(Locale.ROOT).equals("true");
      return hashed ? options.hashes() : options;
    } catch (IllegalArgumentException mistaken) {
      throw new ConfigException("highwater.recorder: " + mistaken.getMessage());
    }
  }

  private static String name(Map<String, ?> configs, String role) {
    Object name = configs.get(NAME);
    if (name != null) {
      return name.toString();
    }
    Object client = configs.get("client.id");
    String given = client == null ? "" : client.toString().replaceAll("[/\\\\\\p{Cntrl}#]", "-");
    return given.isEmpty() || given.startsWith(".") ? role : given;
  }
}
