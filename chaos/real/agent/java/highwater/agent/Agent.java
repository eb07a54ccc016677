package highwater.agent;

import java.io.IOException;
import java.io.InputStream;
import java.lang.instrument.Instrumentation;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.matcher.ElementMatchers;
import net.bytebuddy.utility.JavaModule;

/**
 * Writes down each step of the replication protocol, of transactions and of groups that a Kafka node takes: {@code -javaagent:highwater-agent.jar=DIR[,topics=A+B]}.
 *
 * <p>Only {@code kafka.Kafka} is watched: tools that inherit the option run as they are.
 */
public final class Agent {
  private Agent() {}

  public static void premain(String arguments, Instrumentation instrumentation) {
    try {
      watch(arguments, instrumentation);
    } catch (IllegalArgumentException | IOException wrong) {
      System.err.println("highwater-agent: " + wrong.getMessage());
      System.exit(2);
    }
  }

  private static void watch(String arguments, Instrumentation instrumentation) throws IOException {
    String[] command = System.getProperty("sun.java.command", "").split(" ");
    if (!command[0].equals("kafka.Kafka") || command.length < 2) return;
    String[] parts = arguments == null ? new String[] {""} : arguments.split(",");
    if (parts[0].isEmpty()) throw new IllegalArgumentException("name a folder: -javaagent:highwater-agent.jar=DIR");
    Set<String> topics = Set.of();
    for (String part : Arrays.copyOfRange(parts, 1, parts.length)) {
      if (!part.startsWith("topics=")) throw new IllegalArgumentException("there is no option " + part);
      topics = Set.of(part.substring("topics=".length()).split("\\+"));
    }
    Journal.open(Path.of(parts[0]), nodeId(command));
    Steps.watch(topics);
    Journal.write(
        new Line("start")
            .with("format", 1)
            .with("kafka", kafkaVersion())
            .with("pid", ProcessHandle.current().pid())
            .with("boot", boot()));
    weave(Hooks.read()).installOn(instrumentation);
    Runtime.getRuntime()
        .addShutdownHook(new Thread(() -> Journal.write(new Line("end").with("lines", Journal.lines()))));
  }

  private static AgentBuilder weave(List<Hooks.Hook> hooks) {
    Map<String, Map<Hooks.Hook, Class<?>>> byType = new LinkedHashMap<>();
    for (Hooks.Hook hook : hooks) {
      Journal.write(
          new Line("hook")
              .with("advice", hook.advice())
              .with("of", hook.found() ? hook.type() : String.join(" or ", hook.types()))
              .with("method", hook.method())
              .with("found", hook.found())
              .with("without", hook.without()));
      if (!hook.found()) {
        System.err.println("highwater-agent: this Kafka has no " + String.join(" or ", hook.types()) + "." + hook.method());
        continue;
      }
      byType.computeIfAbsent(hook.type(), __ -> new LinkedHashMap<>()).put(hook, Advices.named(hook.advice()));
    }
    AgentBuilder builder =
        new AgentBuilder.Default()
            .disableClassFormatChanges()
            .with(
                new AgentBuilder.Listener.Adapter() {
                  @Override
                  public void onError(
                      String type, ClassLoader loader, JavaModule module, boolean loaded, Throwable wrong) {
                    Journal.problem(type, wrong);
                  }
                });
    for (var of : byType.entrySet()) {
      builder =
          builder
              .type(ElementMatchers.named(of.getKey()))
              .transform(
                  (changed, type, loader, module, domain) -> {
                    for (var hook : of.getValue().entrySet()) {
                      changed =
                          changed.visit(
                              Advice.to(hook.getValue()).on(one -> hook.getKey().matches(one)));
                    }
                    return changed;
                  });
    }
    return builder;
  }

  /** The node's id in its settings: a node has no other name before it has started. */
  private static long nodeId(String[] command) throws IOException {
    Properties settings = new Properties();
    try (InputStream file = Files.newInputStream(Path.of(command[1]))) {
      settings.load(file);
    }
    for (int i = 2; i + 1 < command.length; i++) {
      if (command[i].equals("--override") && command[i + 1].startsWith("node.id="))
        settings.setProperty("node.id", command[i + 1].substring("node.id=".length()));
    }
    String id = settings.getProperty("node.id", settings.getProperty("broker.id"));
    if (id == null) throw new IllegalArgumentException(command[1] + " names no node.id");
    return Long.parseLong(id.strip());
  }

  private static String kafkaVersion() throws IOException {
    try (InputStream file = ClassLoader.getSystemResourceAsStream("kafka/kafka-version.properties")) {
      if (file == null) return "unknown";
      Properties told = new Properties();
      told.load(file);
      return told.getProperty("version", "unknown").strip();
    }
  }

  /** Which run of which host this is: its monotonic clock can be compared with no other. */
  private static String boot() throws IOException {
    Path told = Path.of("/proc/sys/kernel/random/boot_id");
    return Files.isReadable(told) ? Files.readString(told).strip() : "";
  }
}
