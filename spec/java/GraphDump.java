import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import tlc2.tool.StateVec;
import tlc2.tool.TLCState;
import tlc2.tool.impl.FastTool;
import tlc2.util.FP64;
import tlc2.value.IValue;
import util.SimpleFilenameToStream;
import util.UniqueString;

/**
 * Writes the complete labelled state graphs of models: every reachable state, every step with the name
 * and the arguments of its action, no step twice.
 *
 * <p>Usage: {@code GraphDump MODULE [CFG OUT GUARDS STEPS]...}, in the module's folder; CFG is a path. A graph of
 * at most so many steps has its false guards written to GUARDS, by {@code GuardDump}. OUT holds, written by
 * {@code Ints}, a text and two arrays: a line {@code initial COUNT}, a line {@code label NAME FORMAL=VALUE...} per label,
 * and per variable a line {@code variable NAME COUNT} and its distinct values, one a line; the states in
 * the order of a breadth-first search, each as one index per variable into its values; and for each state
 * the number of its labels, and for each of these its number, how many successors it has, and which.
 */
public final class GraphDump {
  private final UniqueString[] names;
  private final List<Map<Long, Integer>> idOfPrint = new ArrayList<>();
  private final List<List<String>> values = new ArrayList<>();
  private final Ints states = new Ints();
  private final Ints edges = new Ints();
  private final ArrayDeque<TLCState> queue = new ArrayDeque<>();
  private int[] table = new int[1 << 12];
  private int stateCount;
  private int edgeCount;

  /** The values of the state whose steps are being written, and their numbers. */
  private final IValue[] hereValues;

  private final int[] hereIds;
  private final int[] ids;

  private long[] steps = new long[64];
  private int stepCount;

  private GraphDump(TLCState empty) {
    List<String> declared = SpecNames.inOrder(empty.getVars());
    names = new UniqueString[declared.size()];
    for (int i = 0; i < names.length; i++) {
      names[i] = UniqueString.uniqueStringOf(declared.get(i));
      idOfPrint.add(new HashMap<>());
      values.add(new ArrayList<>());
    }
    hereValues = new IValue[names.length];
    hereIds = new int[names.length];
    ids = new int[names.length];
    Arrays.fill(table, -1);
  }

  public static void main(String[] args) throws Exception {
    FP64.Init(0);
    for (int i = 1; i < args.length; i += 4) {
      write(args[0], args[i], args[i + 1], args[i + 2], Integer.parseInt(args[i + 3]));
    }
  }

  private static void write(String module, String cfg, String out, String guards, int most)
      throws Exception {
    String folder = System.getProperty("user.dir");
    String name = cfg.replaceFirst("\\.cfg$", "");
    FastTool tool = new FastTool(folder, module, name, new SimpleFilenameToStream());
    GraphDump graph = new GraphDump(TLCState.Empty);
    List<TLCState> kept = new ArrayList<>();
    Labels labels = graph.dump(tool, out, kept, most);
    if (graph.edgeCount > most) return;
    graph.guards(new GuardDump(tool, labels, graph.names), kept).write(guards);
  }

  /** Keeps the states for as long as their guards may be asked for. */
  private Labels dump(FastTool tool, String out, List<TLCState> kept, int guarded) throws Exception {
    StateVec initial = tool.getInitStates();
    for (int i = 0; i < initial.size(); i++) {
      if (tool.isInModel(initial.elementAt(i))) number(initial.elementAt(i));
    }
    int initialCount = stateCount;
    Labels labels = new Labels(tool);
    for (int here = 0; here < stateCount; here++) {
      TLCState state = queue.poll();
      if (edgeCount <= guarded) {
        kept.add(state);
      } else {
        kept.clear();
      }
      for (int i = 0; i < names.length; i++) {
        hereValues[i] = state.lookup(names[i]);
        hereIds[i] = states.get(here * names.length + i);
      }
      stepCount = 0;
      labels.steps(state, (label, successor) -> step(label.id, number(successor)));
      writeSteps();
    }
    write(out, initialCount, labels);
    return labels;
  }

  private GuardDump guards(GuardDump guards, List<TLCState> kept) {
    int at = 0;
    int here = 0;
    BitSet fired = new BitSet();
    for (TLCState state : kept) {
      fired.clear();
      for (int left = edges.get(at++); left > 0; left--) {
        fired.set(edges.get(at));
        at += 2 + edges.get(at + 1);
      }
      for (int i = 0; i < ids.length; i++) ids[i] = states.get(here * ids.length + i);
      guards.add(state, ids, fired);
      here++;
    }
    return guards;
  }

  /** The number of a state. A new one gets the next number and waits for its turn. */
  private int number(TLCState state) {
    for (int i = 0; i < ids.length; i++) {
      IValue value = state.lookup(names[i]);
      // What a step leaves alone is the very same object as before: no need to look at it again.
      ids[i] = value == hereValues[i] ? hereIds[i] : intern(i, value);
    }
    int slot = find(Arrays.hashCode(ids));
    if (table[slot] >= 0) return table[slot];
    table[slot] = stateCount;
    for (int id : ids) states.add(id);
    queue.add(state);
    stateCount++;
    if (stateCount * 2 > table.length) rehash();
    return stateCount - 1;
  }

  /** Equal values print differently (1..3 and {1, 2, 3}) but have equal fingerprints. */
  private int intern(int variable, IValue value) {
    value.deepNormalize();
    return idOfPrint.get(variable).computeIfAbsent(
        value.fingerPrint(FP64.New()),
        print -> {
          values.get(variable).add(Labels.print(value));
          return values.get(variable).size() - 1;
        });
  }

  private int find(int hash) {
    int mask = table.length - 1;
    int slot = (hash ^ hash >>> 15) * 0x9E3779B1 >>> 8 & mask;
    while (table[slot] >= 0 && !states.equal(table[slot] * ids.length, ids)) slot = slot + 1 & mask;
    return slot;
  }

  private void rehash() {
    table = new int[table.length * 2];
    Arrays.fill(table, -1);
    int[] kept = ids.clone();
    for (int state = 0; state < stateCount; state++) {
      for (int i = 0; i < ids.length; i++) ids[i] = states.get(state * ids.length + i);
      table[find(Arrays.hashCode(ids))] = state;
    }
    System.arraycopy(kept, 0, ids, 0, ids.length);
  }

  private void step(int label, int target) {
    if (stepCount == steps.length) steps = Arrays.copyOf(steps, 2 * stepCount);
    steps[stepCount++] = (long) label << 32 | target;
  }

  /** TLC takes a step once per way to make a guard true; one edge is enough. */
  private void writeSteps() {
    Arrays.sort(steps, 0, stepCount);
    int distinct = 0;
    int labels = 0;
    for (int i = 0; i < stepCount; i++) {
      if (i > 0 && steps[i] == steps[i - 1]) continue;
      if (distinct == 0 || steps[distinct - 1] >>> 32 != steps[i] >>> 32) labels++;
      steps[distinct++] = steps[i];
    }
    edgeCount += distinct;
    edges.add(labels);
    for (int first = 0, end; first < distinct; first = end) {
      end = first + 1;
      while (end < distinct && steps[end] >>> 32 == steps[first] >>> 32) end++;
      edges.add((int) (steps[first] >>> 32));
      edges.add(end - first);
      for (int i = first; i < end; i++) edges.add((int) steps[i]);
    }
  }

  private void write(String out, int initialCount, Labels labels) throws IOException {
    StringBuilder text = new StringBuilder("initial " + initialCount + "\n");
    for (Labels.Label label : labels.all) text.append("label ").append(label.text).append('\n');
    for (int i = 0; i < names.length; i++) {
      text.append("variable " + names[i] + " " + values.get(i).size() + "\n");
      for (String value : values.get(i)) text.append(value).append('\n');
    }
    Ints.write(out, text.toString(), states, edges);
  }
}
