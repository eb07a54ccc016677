import java.io.IOException;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import tla2sany.semantic.FormalParamNode;
import tlc2.tool.Action;
import tlc2.tool.TLCState;
import tlc2.tool.impl.FastTool;
import tlc2.value.IValue;
import util.UniqueString;

/**
 * Which guards forbid what, in every state of a graph: for each label that does not fire there, the places
 * of all its false conjuncts.
 *
 * <p>Written as {@code GraphDump} writes: the length of the text in bytes and of the array in integers; a line
 * {@code labels COUNT}; a line {@code set PLACE...} per distinct set of places, tab between; then for each
 * state, in the order of {@code GraphDump}, and for each label the number of its set, -1 where it fires.
 */
final class GuardDump {
  private final Map<Set<String>, Integer> idOfSet = new HashMap<>();
  private final StringBuilder sets = new StringBuilder();
  private final Ints rows = new Ints();
  private final List<Conjuncts> conjuncts = new ArrayList<>();
  private final List<Map<BitSet, Integer>> known = new ArrayList<>();

  GuardDump(FastTool tool, Labels labels, UniqueString[] variables) {
    Map<String, Action> actions = new HashMap<>();
    for (Action action : tool.getActions()) actions.put(text(action), action);
    for (Labels.Label label : labels.all) {
      Action action = actions.get(label.text);
      conjuncts.add(action == null ? null : new Conjuncts(tool, action, variables));
      known.add(new HashMap<>());
    }
  }

  /** A state, by the numbers of its values, and the labels that fire there. */
  void add(TLCState state, int[] values, BitSet fired) {
    for (int id = 0; id < conjuncts.size(); id++) {
      Conjuncts of = conjuncts.get(id);
      if (fired.get(id) || of == null) {
        rows.add(-1);
      } else {
        rows.add(known.get(id).computeIfAbsent(of.falseOnes(state, values), one -> number(of.places(one))));
      }
    }
  }

  void write(String out) throws IOException {
    Ints.write(out, "labels " + conjuncts.size() + "\n" + sets, rows);
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
    Integer known = idOfSet.putIfAbsent(places, idOfSet.size());
    if (known != null) return known;
    sets.append("set");
    for (String place : places) sets.append('\t').append(place);
    sets.append('\n');
    return idOfSet.size() - 1;
  }
}
