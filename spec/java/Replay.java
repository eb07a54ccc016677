import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import tlc2.tool.StateVec;
import tlc2.tool.TLCState;
import tlc2.tool.impl.FastTool;
import tlc2.util.FP64;
import util.SimpleFilenameToStream;

/**
 * Finds the arguments of the actions in a counterexample, of which TLC reports the names and the states.
 *
 * <p>Usage: {@code Replay MODULE CFG STATES}. A line of STATES is a JSON array [ACTION,
 * {VARIABLE: VALUE...}], one for each state in order. Where several actions lead to the state, the one that
 * TLC named is meant. Prints a line for each step: NAME, then FORMAL=VALUE for each argument, tab between.
 */
public final class Replay {
  private TLCState reached;
  private Labels.Label label;

  public static void main(String[] args) throws Exception {
    PrintStream out = System.out;
    System.setOut(System.err);
    FP64.Init(0);
    String cfg = args[1].replaceFirst("\\.cfg$", "");
    FastTool tool =
        new FastTool(System.getProperty("user.dir"), args[0], cfg, new SimpleFilenameToStream());
    new Replay().replay(tool, Files.readAllLines(Path.of(args[2])), out);
  }

  private void replay(FastTool tool, List<String> lines, PrintStream out) throws Exception {
    Labels labels = new Labels(tool);
    TLCState state = initial(tool, new Logged(read(lines.get(0)).get(1)));
    for (String line : lines.subList(1, lines.size())) {
      Object action = read(line).get(0);
      Logged wanted = new Logged(read(line).get(1));
      reached = null;
      labels.steps(
          state,
          (step, successor) -> {
            boolean found = reached != null && (label.name.equals(action) || !step.name.equals(action));
            if (found || !wanted.matches(successor)) return;
            reached = successor;
            label = step;
          });
      if (reached == null) throw new IllegalStateException("no step leads to " + line);
      out.println(label.text);
      state = reached;
    }
  }

  private static List<?> read(String line) {
    return (List<?>) Json.read(line);
  }

  private static TLCState initial(FastTool tool, Logged wanted) {
    StateVec initial = tool.getInitStates();
    for (int i = 0; i < initial.size(); i++) {
      if (wanted.matches(initial.elementAt(i))) return initial.elementAt(i);
    }
    throw new IllegalStateException("the first state is not an initial state");
  }
}
