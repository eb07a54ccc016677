import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
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
 * Writes the complete labelled state graph of a model: every reachable state, every step with the name
 * and the arguments of its action, no step twice.
 *
 * <p>Usage: {@code GraphDump MODULE CFG OUT [GUARDS STEPS]}, in the module's folder; CFG is a path. A graph of
 * at most so many steps has its false guards written to GUARDS, by {@code GuardDump}. OUT holds, all
 * integers being 32 bits little-endian: the length of the text in bytes and of the two arrays in integers;
 * UTF-8 text, that is a line {@code initial COUNT}, a line {@code label NAME FORMAL=VALUE...} per label,
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
    String folder = System.getProperty("user.dir");
    String cfg = args[1].replaceFirst("\\.cfg$", "");
    FastTool tool = new FastTool(folder, args[0], cfg, new SimpleFilenameToStream());
    GraphDump graph = new GraphDump(TLCState.Empty);
    int guarded = args.length > 3 ? Integer.parseInt(args[4]) : -1;
    List<TLCState> kept = new ArrayList<>();
    Labels labels = graph.dump(tool, args[2], kept, guarded);
    if (graph.edgeCount <= guarded) graph.guards(new GuardDump(tool, labels), kept).write(Path.of(args[3]));
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
    BitSet fired = new BitSet();
    for (TLCState state : kept) {
      fired.clear();
      for (int left = edges.get(at++); left > 0; left--) {
        fired.set(edges.get(at));
        at += 2 + edges.get(at + 1);
      }
      guards.add(state, fired);
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
    byte[] head = text.toString().getBytes(StandardCharsets.UTF_8);
    try (DataOutputStream file =
        new DataOutputStream(new BufferedOutputStream(new FileOutputStream(out), 1 << 20))) {
      for (int length : new int[] {head.length, states.size, edges.size}) {
        file.writeInt(Integer.reverseBytes(length));
      }
      file.write(head);
      states.write(file);
      edges.write(file);
    }
  }

  /** A growing array of int. */
  private static final class Ints {
    private int[] data = new int[1 << 12];
    private int size;

    void add(int value) {
      if (size == data.length) data = Arrays.copyOf(data, 2 * size);
      data[size++] = value;
    }

    int get(int index) {
      return data[index];
    }

    boolean equal(int from, int[] wanted) {
      return Arrays.equals(data, from, from + wanted.length, wanted, 0, wanted.length);
    }

    void write(DataOutputStream file) throws IOException {
      ByteBuffer chunk = ByteBuffer.allocate(1 << 16).order(ByteOrder.LITTLE_ENDIAN);
      for (int i = 0; i < size; i++) {
        chunk.putInt(data[i]);
        if (!chunk.hasRemaining() || i + 1 == size) {
          file.write(chunk.array(), 0, chunk.position());
          chunk.clear();
        }
      }
    }
  }
}
