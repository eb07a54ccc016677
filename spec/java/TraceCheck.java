import java.io.BufferedReader;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import tla2sany.semantic.ExprNode;
import tla2sany.semantic.FormalParamNode;
import tla2sany.semantic.OpDefNode;
import tlc2.tool.Action;
import tlc2.tool.StateVec;
import tlc2.tool.TLCState;
import tlc2.tool.impl.FastTool;
import tlc2.util.Context;
import tlc2.util.FP64;
import util.SimpleFilenameToStream;
import util.UniqueString;

/**
 * Judges traces: is each the beginning of a behaviour of the spec?
 *
 * <p>TLC's own evaluator takes every step: an event names an action and its arguments, its successors are
 * computed, and those that agree with the values that the event logged are kept. So an action may be
 * nondeterministic and an event may log few variables; where several states remain possible, all are
 * followed.
 *
 * <p>Usage: {@code TraceCheck MODULE [PROMISE...]}, in the folder of MODULE.tla, MODULE.cfg and MODULE.traces. A line of
 * the latter is a JSON array: [] begins a trace, [ACTION, [ARGUMENT...], {VARIABLE: VALUE...}] is an event.
 * Every state must keep the promises, which are names of the spec.
 * Prints a line for each trace: {@code ok}, or {@code bad EVENT WHY} with details, then {@code state} with
 * the last state that was in order, parts separated by tabs. An assumption of the spec that the constants break is {@code assume PLACE}.
 */
public final class TraceCheck {
  private static final int MOST_POSSIBLE = 10_000;

  private final FastTool tool;
  private final PrintStream out;
  private final List<String> promises;
  private final Map<String, OpDefNode> definitions = new HashMap<>();
  private List<TLCState> possible;
  private int event;
  private boolean rejected;

  private TraceCheck(FastTool tool, PrintStream out, List<String> promises) {
    this.tool = tool;
    this.out = out;
    this.promises = promises;
  }

  public static void main(String[] args) throws Exception {
    PrintStream out = System.out;
    System.setOut(System.err);
    FP64.Init(0);
    String module = args[0];
    FastTool tool =
        new FastTool(System.getProperty("user.dir"), module, module, new SimpleFilenameToStream());
    for (ExprNode assumption : tool.getAssumptions()) {
      if (tool.isValid(assumption)) continue;
      out.println("assume\t" + assumption.getLocation());
      return;
    }
    try (BufferedReader traces = Files.newBufferedReader(Path.of(module + ".traces"))) {
      new TraceCheck(tool, out, List.of(args).subList(1, args.length)).judge(traces);
    }
    out.flush();
  }

  private void judge(BufferedReader traces) throws Exception {
    StateVec initial = tool.getInitStates();
    for (String line; (line = traces.readLine()) != null; ) {
      List<?> read = (List<?>) Json.read(line);
      if (read.isEmpty()) {
        finish();
        possible = new ArrayList<>();
        for (int i = 0; i < initial.size(); i++) possible.add(initial.elementAt(i));
        event = 0;
        rejected = false;
      } else if (!rejected) {
        event++;
        step((String) read.get(0), (List<?>) read.get(1), new Logged(read.get(2)));
      }
    }
    finish();
  }

  private void finish() {
    if (possible != null && !rejected) out.println("ok");
  }

  private void step(String name, List<?> args, Logged logged) throws Exception {
    if (name.equals("Init") && event == 1) {
      keep(possible, logged);
      return;
    }
    OpDefNode definition = definitions.computeIfAbsent(name, this::definition);
    if (definition == null) {
      reject("unknown\t" + name);
      return;
    }
    Action action = new Action(definition.getBody(), bound(definition, args), definition);
    List<TLCState> next = new ArrayList<>();
    try {
      for (TLCState state : possible) {
        StateVec found = tool.getNextStates(action, state);
        for (int i = 0; i < found.size(); i++) next.add(found.elementAt(i));
      }
    } catch (RuntimeException unevaluable) {
      reject("error\t" + String.valueOf(unevaluable.getMessage()).replaceAll("\\s+", " "));
      return;
    }
    if (next.isEmpty()) {
      String guard = new Guards(tool, possible.get(0)).falseOne(action.pred, action.con);
      reject("guard\t" + (guard == null ? definition.getLocation() : guard));
    } else {
      keep(next, logged);
    }
  }

  private OpDefNode definition(String name) {
    return tool.getSpecProcessor().getRootModule().getOpDef(UniqueString.uniqueStringOf(name));
  }

  private static Context bound(OpDefNode definition, List<?> args) {
    FormalParamNode[] formals = definition.getParams();
    Context context = Context.Empty;
    for (int i = 0; i < formals.length; i++) {
      context = context.cons(formals[i], Json.toTla(args.get(i)));
    }
    return context;
  }

  /** Go on with the states that agree with the log, each once. */
  private void keep(List<TLCState> candidates, Logged logged) {
    List<TLCState> agreeing = new ArrayList<>();
    Set<Long> seen = new HashSet<>();
    for (TLCState state : candidates) {
      if (!logged.matches(state)) continue;
      if (candidates.size() == 1 || seen.add(state.fingerPrint())) agreeing.add(state);
    }
    if (agreeing.isEmpty()) {
      reject("differs" + nearest(candidates, logged));
    } else if (agreeing.size() > MOST_POSSIBLE) {
      reject("vague\t" + agreeing.size());
    } else {
      possible = agreeing;
      for (String promise : promises) {
        if (kept(promise)) continue;
        reject("promise\t" + promise);
        return;
      }
    }
  }

  /** Whether the promise holds in a state that is possible here. */
  private boolean kept(String promise) {
    OpDefNode definition = definitions.computeIfAbsent(promise, this::definition);
    if (definition == null) throw new IllegalArgumentException("the spec has no promise " + promise);
    Action formula = new Action(definition.getBody(), Context.Empty, definition);
    for (TLCState state : possible) if (tool.isValid(formula, state)) return true;
    return false;
  }

  private static String nearest(List<TLCState> candidates, Logged logged) {
    String best = null;
    for (TLCState state : candidates) {
      String text = logged.differences(state);
      if (best == null || text.length() < best.length()) best = text;
    }
    return best;
  }

  private void reject(String why) {
    rejected = true;
    out.println("bad\t" + event + "\t" + why);
    StringBuilder text = new StringBuilder("state");
    TLCState last = possible.get(0);
    for (String name : SpecNames.inOrder(last.getVars())) {
      text.append('\t').append(name);
      text.append('\t').append(Labels.print(last.lookup(UniqueString.uniqueStringOf(name))));
    }
    out.println(text);
  }
}
