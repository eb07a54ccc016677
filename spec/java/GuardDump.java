import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import tla2sany.semantic.FormalParamNode;
import tlc2.tool.Action;
import tlc2.tool.TLCState;
import tlc2.tool.impl.FastTool;
import tlc2.value.IValue;

/**
 * Which guards forbid what, in every state of a graph: for each label that does not fire there, the places
 * of all its false conjuncts.
 *
 * <p>Written as text: a line {@code set PLACE...} per distinct set of places, tab between; then a line per
 * state, in the order of {@code GraphDump}: for each label the number of its set, -1 where it fires.
 */
final class GuardDump {
  private final Map<Set<String>, Integer> idOfSet = new HashMap<>();
  private final List<String> sets = new ArrayList<>();
  private final StringBuilder rows = new StringBuilder();
  private final FastTool tool;
  private final List<Labels.Label> labels;
  private final Map<String, Action> actions = new HashMap<>();

  GuardDump(FastTool tool, Labels labels) {
    this.tool = tool;
    this.labels = labels.all;
    for (Action action : tool.getActions()) actions.put(text(action), action);
  }

  void add(TLCState state, BitSet fired) {
    Guards guards = new Guards(tool, state);
    for (int id = 0; id < labels.size(); id++) {
      Action action = actions.get(labels.get(id).text);
      int set = fired.get(id) || action == null ? -1 : number(guards.falseOnes(action.pred, action.con));
      rows.append(set).append(id + 1 < labels.size() ? ' ' : '\n');
    }
  }

  void write(Path out) throws IOException {
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
