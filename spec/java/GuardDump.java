import java.io.BufferedWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import tla2sany.semantic.FormalParamNode;
import tlc2.tool.Action;
import tlc2.tool.StateVec;
import tlc2.tool.TLCState;
import tlc2.tool.impl.FastTool;
import tlc2.util.FP64;
import tlc2.value.IValue;
import util.SimpleFilenameToStream;

/**
 * Writes which guards forbid what, in every state of a model: for each label that does not fire there, the
 * places of all its false conjuncts.
 *
 * <p>Usage: {@code GuardDump MODULE CFG OUT}, in the module's folder; CFG is a path. OUT is text: a line
 * {@code set PLACE...} per distinct set of places, tab between; then a line per state, in the order of
 * {@code GraphDump}: for each label the number of its set, -1 where it fires.
 */
public final class GuardDump {
  private final Map<Set<String>, Integer> idOfSet = new HashMap<>();
  private final List<String> sets = new ArrayList<>();
  private final ArrayDeque<TLCState> queue = new ArrayDeque<>();
  private final Set<Long> known = new HashSet<>();

  public static void main(String[] args) throws Exception {
    FP64.Init(0);
    String folder = System.getProperty("user.dir");
    String cfg = args[1].replaceFirst("\\.cfg$", "");
    FastTool tool = new FastTool(folder, args[0], cfg, new SimpleFilenameToStream());
    new GuardDump().dump(tool, Path.of(args[2]));
  }

  private void dump(FastTool tool, Path out) throws Exception {
    StateVec initial = tool.getInitStates();
    for (int i = 0; i < initial.size(); i++) {
      if (tool.isInModel(initial.elementAt(i))) meet(initial.elementAt(i));
    }
    Labels labels = new Labels(tool);
    Map<String, Action> actions = new HashMap<>();
    for (Action action : tool.getActions()) actions.put(text(action), action);
    StringBuilder rows = new StringBuilder();
    BitSet fired = new BitSet();
    for (TLCState state; (state = queue.poll()) != null; ) {
      fired.clear();
      labels.steps(
          state,
          (label, successor) -> {
            fired.set(label.id);
            meet(successor);
          });
      Guards guards = new Guards(tool, state);
      for (int id = 0; id < labels.all.size(); id++) {
        Action action = actions.get(labels.all.get(id).text);
        int set = fired.get(id) || action == null ? -1 : number(guards.falseOnes(action.pred, action.con));
        rows.append(set).append(id + 1 < labels.all.size() ? ' ' : '\n');
      }
    }
    try (BufferedWriter file = Files.newBufferedWriter(out)) {
      for (String set : sets) file.append("set").append(set).append('\n');
      file.append(rows);
    }
  }

  /** What Labels calls an action whose arguments are all known. */
  private static String text(Action action) {
    StringBuilder text = new StringBuilder(action.getOpDef().getName().toString());
    for (FormalParamNode formal : action.getOpDef().getParams()) {
      if (!(action.con.lookup(formal) instanceof IValue)) return "";
      IValue argument = (IValue) action.con.lookup(formal);
      argument.deepNormalize();
      text.append('\t').append(formal.getName()).append('=').append(Labels.print(argument));
    }
    return text.toString();
  }

  private void meet(TLCState state) {
    state.deepNormalize();
    if (known.add(state.fingerPrint())) queue.add(state);
  }

  private int number(Set<String> places) {
    return idOfSet.computeIfAbsent(
        places,
        set -> {
          StringBuilder text = new StringBuilder();
          for (String place : new TreeSet<>(set)) text.append('\t').append(place);
          sets.add(text.toString());
          return sets.size() - 1;
        });
  }
}
