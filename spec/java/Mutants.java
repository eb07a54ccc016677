import java.io.PrintStream;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import tla2sany.semantic.NumeralNode;
import tla2sany.semantic.OpApplNode;
import tla2sany.semantic.OpArgNode;
import tla2sany.semantic.OpDefNode;
import tla2sany.semantic.SemanticNode;
import tla2sany.semantic.Subst;
import tla2sany.semantic.SubstInNode;
import tlc2.tool.Action;
import tlc2.tool.StateVec;
import tlc2.tool.TLCState;
import tlc2.tool.impl.FastTool;
import tlc2.util.FP64;
import tlc2.value.impl.IntValue;
import util.SimpleFilenameToStream;
import util.UniqueString;

/**
 * Explores many mutants of a spec, which stand in one text behind a variable {@code mutant}, and says of
 * each whether it breaks what the configuration promises. 0 is the spec itself.
 *
 * <p>A mutant changes one action or two. What the others do in a state is the same for all of them and is
 * computed once; so is what a promise says of a state or of a step, unless the mutant changes the promise.
 * What a promise says of the beginning is asked of each.
 *
 * <p>Usage: {@code Mutants MODULE CFG NUMBERS SECONDS STATES}, in the module's folder: the mutants' numbers
 * with commas between, the processor seconds after which nothing more is begun, and the states after which
 * a mutant is left. Prints a line for each, parts separated by tabs: its number, {@code broken}, {@code kept},
 * {@code late} or {@code meaningless}, the promise or what TLC said, whether its graph is the spec's
 * ({@code same} or {@code other}), how many states it has, and the states of the shortest story in which the
 * promise breaks. A line {@code temporal} says that the
 * configuration has promises about whole behaviours, which nobody asked.
 */
public final class Mutants {
  private static final UniqueString MUTANT = UniqueString.uniqueStringOf("mutant");
  private static final int UNKNOWN = -2;
  private static final int HOLDS = -1;

  /** What an action does in a state: its successors, in order, each once, and the first broken promise. */
  private static final class Steps {
    final int[] targets;
    final int broken;

    Steps(int[] targets, int broken) {
      this.targets = targets;
      this.broken = broken;
    }
  }

  private final FastTool tool;
  private final PrintStream out;
  private final Action[] actions;
  private final Action[] invariants;
  private final Action[] stepPromises;
  private final Action[] beginnings;
  private final List<Set<Integer>> changedActions = new ArrayList<>();
  private final Set<Integer> changedInvariants = new HashSet<>();
  private final Set<Integer> changedSteps = new HashSet<>();

  private final Map<Long, Integer> numbers = new HashMap<>();
  private final List<TLCState> states = new ArrayList<>();
  private final List<Steps[]> original = new ArrayList<>();
  private int[] brokenInvariant = new int[1 << 10];
  private int[] seenBy = new int[1 << 10];

  private Mutants(FastTool tool, PrintStream out) {
    this.tool = tool;
    this.out = out;
    actions = tool.getActions();
    invariants = tool.getInvariants();
    stepPromises = tool.getImpliedActions();
    beginnings = tool.getImpliedInits();
    for (Action action : actions) changedActions.add(mutantsIn(action));
    for (Action invariant : invariants) changedInvariants.addAll(mutantsIn(invariant));
    for (Action promise : stepPromises) changedSteps.addAll(mutantsIn(promise));
  }

  public static void main(String[] args) throws Exception {
    PrintStream out = System.out;
    System.setOut(System.err);
    FP64.Init(0);
    String cfg = args[1].replaceFirst("\\.cfg$", "");
    String folder = System.getProperty("user.dir");
    FastTool tool = new FastTool(folder, args[0], cfg, new SimpleFilenameToStream());
    int[] asked = Arrays.stream(args[2].split(",")).mapToInt(Integer::parseInt).toArray();
    new Mutants(tool, out).explore(asked, Double.parseDouble(args[3]), Integer.parseInt(args[4]));
    out.flush();
  }

  private void explore(int[] asked, double seconds, int most) {
    if (tool.getImpliedTemporals().length > 0) out.println("temporal");
    int[] initial = initial();
    explore(0, initial, Integer.MAX_VALUE);
    for (int mutant : asked) {
      if (processorSeconds() > seconds) {
        out.println(mutant + "\tlate\t\t\t0\t0");
      } else {
        explore(mutant, initial, most);
      }
    }
  }

  private static double processorSeconds() {
    return java.lang.management.ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() / 1e9;
  }

  private int[] initial() {
    StateVec found = tool.getInitStates();
    int[] initial = new int[found.size()];
    for (int i = 0; i < initial.length; i++) initial[i] = number(found.elementAt(i));
    return initial;
  }

  private void explore(int mutant, int[] initial, int most) {
    try {
      Search search = new Search(mutant, most);
      String promise = search.run(initial);
      String end = promise != null ? "broken" : search.late ? "late" : "kept";
      String graph = search.other ? "other" : "same";
      out.println(mutant + "\t" + end + "\t" + (promise == null ? "" : promise) + "\t" + graph + "\t" + search.count + "\t" + search.depth);
    } catch (RuntimeException | Error unevaluable) {
      if (unevaluable instanceof OutOfMemoryError) throw unevaluable;
      String said = String.valueOf(unevaluable.getMessage()).replaceAll("\\s+", " ");
      out.println(mutant + "\tmeaningless\t" + said + "\tother\t0\t0");
    }
  }

  /** The search through one mutant's states, breadth first. */
  private final class Search {
    final int mutant;
    final int most;
    final ArrayDeque<Integer> queue = new ArrayDeque<>();
    int count;
    int depth = 1;
    boolean late;
    boolean other;

    Search(int mutant, int most) {
      this.mutant = mutant;
      this.most = most;
    }

    /** The name of the first promise that is broken, or null. */
    String run(int[] initial) {
      for (int state : initial) {
        for (int i = 0; i < beginnings.length; i++) {
          if (!tool.isValid(beginnings[i], as(states.get(state), mutant))) return tool.getImpliedInitNames()[i];
        }
        int broken = visit(state);
        if (broken != HOLDS) return tool.getInvNames()[broken];
      }
      while (!queue.isEmpty()) {
        depth++;
        for (int left = queue.size(); left > 0; left--) {
          if (count > most) {
            late = true;
            return null;
          }
          String broken = expand(queue.poll());
          if (broken != null) return broken;
        }
      }
      return null;
    }

    private String expand(int state) {
      for (int action = 0; action < actions.length; action++) {
        Steps steps = steps(state, action);
        if (steps.broken != HOLDS) return tool.getImpliedActNames()[steps.broken];
        for (int target : steps.targets) {
          int broken = visit(target);
          if (broken != HOLDS) return tool.getInvNames()[broken];
        }
      }
      return null;
    }

    /** Take a state up, if it is new; the invariant that it breaks. */
    private int visit(int state) {
      if (seenBy[state] == mutant) return HOLDS;
      seenBy[state] = mutant;
      count++;
      queue.add(state);
      if (changedInvariants.contains(mutant)) return brokenInvariant(state, mutant);
      if (brokenInvariant[state] == UNKNOWN) brokenInvariant[state] = brokenInvariant(state, 0);
      return brokenInvariant[state];
    }

    private Steps steps(int state, int action) {
      Steps[] known = original.get(state);
      boolean changed = changedActions.get(action).contains(mutant);
      if (!changed || !other) {
        if (known[action] == null) known[action] = taken(state, action, 0, null);
      }
      if (!changed && changedSteps.contains(mutant)) {
        return new Steps(known[action].targets, brokenAmong(known[action].targets, state, mutant));
      }
      if (!changed) return known[action];
      Steps steps = taken(state, action, mutant, changedSteps.contains(mutant) ? null : known[action]);
      if (!other && !Arrays.equals(steps.targets, known[action].targets)) other = true;
      return steps;
    }
  }

  private int brokenInvariant(int state, int mutant) {
    TLCState here = as(states.get(state), mutant);
    for (int i = 0; i < invariants.length; i++) {
      if (!tool.isValid(invariants[i], here)) return i;
    }
    return HOLDS;
  }

  /** Take all steps of an action; of those among {@code judged} it is known that they break nothing. */
  private Steps taken(int state, int action, int mutant, Steps judged) {
    TLCState here = as(states.get(state), mutant);
    StateVec next = tool.getNextStates(actions[action], here);
    int[] targets = new int[next.size()];
    for (int i = 0; i < targets.length; i++) targets[i] = number(next.elementAt(i));
    targets = Arrays.stream(targets).sorted().distinct().toArray();
    boolean known = judged != null && judged.broken == HOLDS;
    int broken = HOLDS;
    for (int target : targets) {
      if (broken != HOLDS) break;
      if (target == state || known && Arrays.binarySearch(judged.targets, target) >= 0) continue;
      broken = brokenStep(here, as(states.get(target), mutant));
    }
    return new Steps(targets, broken);
  }

  /** The first step promise that one of these steps breaks, where a mutant changes a promise alone. */
  private int brokenAmong(int[] targets, int state, int mutant) {
    TLCState here = as(states.get(state), mutant);
    for (int target : targets) {
      if (target == state) continue;
      int broken = brokenStep(here, as(states.get(target), mutant));
      if (broken != HOLDS) return broken;
    }
    return HOLDS;
  }

  private int brokenStep(TLCState here, TLCState there) {
    for (int i = 0; i < stepPromises.length; i++) {
      if (!tool.isValid(stepPromises[i], here, there)) return i;
    }
    return HOLDS;
  }

  /** The same state, in which this mutant is in force. */
  private static TLCState as(TLCState state, int mutant) {
    return mutant == 0 ? state : state.copy().bind(MUTANT, IntValue.gen(mutant));
  }

  /** The number of a state. */
  private int number(TLCState state) {
    state.bind(MUTANT, IntValue.gen(0));
    if (!state.allAssigned()) throw new RuntimeException("a step leaves a variable without a value");
    Integer known = numbers.putIfAbsent(state.fingerPrint(), states.size());
    if (known != null) return known;
    int number = states.size();
    states.add(state);
    original.add(new Steps[actions.length]);
    if (number == seenBy.length) {
      seenBy = Arrays.copyOf(seenBy, 2 * number);
      brokenInvariant = Arrays.copyOf(brokenInvariant, 2 * number);
    }
    seenBy[number] = UNKNOWN;
    brokenInvariant[number] = UNKNOWN;
    return number;
  }

  /** The mutants that change something in what this action stands for. */
  private static Set<Integer> mutantsIn(Action action) {
    Set<Integer> found = new HashSet<>();
    collect(action.pred, found, Collections.newSetFromMap(new IdentityHashMap<>()));
    return found;
  }

  private static void collect(SemanticNode node, Set<Integer> found, Set<SemanticNode> entered) {
    if (node == null || !entered.add(node)) return;
    if (node instanceof OpApplNode) {
      OpApplNode application = (OpApplNode) node;
      collect(application.getOperator(), found, entered);
      if (isMutant(application)) found.add(((NumeralNode) application.getArgs()[1]).val());
    } else if (node instanceof OpArgNode) {
      collect(((OpArgNode) node).getOp(), found, entered);
    } else if (node instanceof OpDefNode) {
      collect(((OpDefNode) node).getBody(), found, entered);
    } else if (node instanceof SubstInNode) {
      collect(((SubstInNode) node).getBody(), found, entered);
      for (Subst one : ((SubstInNode) node).getSubsts()) collect(one.getExpr(), found, entered);
    }
    SemanticNode[] children = node.getChildren();
    if (children == null) return;
    for (SemanticNode child : children) collect(child, found, entered);
  }

  /** Whether it is {@code mutant = NUMBER}. */
  private static boolean isMutant(OpApplNode node) {
    if (!node.getOperator().getName().equals(UniqueString.uniqueStringOf("="))) return false;
    SemanticNode left = node.getArgs()[0];
    return left instanceof OpApplNode && ((OpApplNode) left).getOperator().getName().equals(MUTANT);
  }
}
