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
 * <p>Usage: {@code Replay MODULE CFG STATES}. A line of STATES is a JSON object VARIABLE: VALUE, one for
 * each state in order. Prints a line for each step: NAME, then FORMAL=VALUE for each argument, tab between.
 */
public final class Replay {
  private TLCState reached;
  private String label;

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
    TLCState state = initial(tool, new Logged(Json.read(lines.get(0))));
    for (String line : lines.subList(1, lines.size())) {
      Logged wanted = new Logged(Json.read(line));
      reached = null;
      labels.steps(
          state,
          (step, successor) -> {
            if (reached != null || !wanted.matches(successor)) return;
            reached = successor;
            label = step.text;
          });
      if (reached == null) throw new IllegalStateException("no step leads to " + line);
      out.println(label);
      state = reached;
    }
  }

  private static TLCState initial(FastTool tool, Logged wanted) {
    StateVec initial = tool.getInitStates();
    for (int i = 0; i < initial.size(); i++) {
      if (wanted.matches(initial.elementAt(i))) return initial.elementAt(i);
    }
    throw new IllegalStateException("the first state is not an initial state");
  }
}
