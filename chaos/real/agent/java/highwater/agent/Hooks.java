package highwater.agent;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.description.type.TypeDescription;
import net.bytebuddy.pool.TypePool;

/** The table of the methods that are watched, and which of them this version of Kafka has. */
final class Hooks {
  private Hooks() {}

  /** One row; `type` is the class that this version has, or null; without it a run is not judged, or only `without` is not. */
  record Hook(String advice, String type, List<String> types, String method, String argument, boolean found, String without) {
    boolean matches(MethodDescription one) {
      return one.getName().equals(method)
          && !one.isAbstract()
          && !one.isSynthetic()
          && (argument.isEmpty()
              || !one.getParameters().isEmpty()
                  && one.getParameters().get(0).getType().asErasure().getName().equals(argument));
    }
  }

  static List<Hook> read() throws IOException {
    List<Hook> hooks = new ArrayList<>();
    TypePool pool = TypePool.Default.ofSystemLoader();
    try (BufferedReader table =
        new BufferedReader(
            new InputStreamReader(Hooks.class.getResourceAsStream("hooks.txt"), StandardCharsets.UTF_8))) {
      for (String line; (line = table.readLine()) != null; ) {
        if (line.isBlank() || line.startsWith("#")) continue;
        String[] parts = line.split("\\|");
        hooks.add(
            resolved(
                pool,
                parts[0].strip(),
                List.of(parts[1].strip().split(", *")),
                List.of(parts[2].strip().split(" or ")),
                parts.length > 4 ? parts[4].strip() : ""));
      }
    }
    return hooks;
  }

  private static Hook resolved(
      TypePool pool, String advice, List<String> types, List<String> methods, String without) {
    for (String type : types) {
      TypePool.Resolution resolution = pool.describe(type);
      if (!resolution.isResolved()) continue;
      TypeDescription described = resolution.resolve();
      for (String method : methods) {
        String[] named = method.split(" ");
        Hook hook = new Hook(advice, type, types, named[0], named.length > 1 ? named[1] : "", true, without);
        if (described.getDeclaredMethods().stream().anyMatch(hook::matches)) return hook;
      }
    }
    return new Hook(advice, null, types, String.join(" or ", methods), "", false, without);
  }
}
