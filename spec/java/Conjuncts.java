import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import tla2sany.semantic.ExprOrOpArgNode;
import tla2sany.semantic.LetInNode;
import tla2sany.semantic.LevelConstants;
import tla2sany.semantic.LevelNode;
import tla2sany.semantic.OpApplNode;
import tla2sany.semantic.OpDefNode;
import tla2sany.semantic.SemanticNode;
import tla2sany.semantic.Subst;
import tla2sany.semantic.SubstInNode;
import tla2sany.semantic.SymbolNode;
import tlc2.tool.Action;
import tlc2.tool.ITool;
import tlc2.tool.TLCState;
import tlc2.util.Context;
import tlc2.value.impl.BoolValue;
import util.UniqueString;

/**
 * The conjuncts of an action, as deep as they go, and which of them are false in a state.
 *
 * <p>A conjunct is evaluated once for all states that agree in the variables that it reads.
 */
final class Conjuncts {
  /**
   * How the arguments of a definition on the way to a conjunct are bound, or what the constants and
   * variables of an instance stand for: then {@code reads} is null, since no conjunct reads them all.
   */
  private static final class Binding {
    final Binding outer;
    final SymbolNode[] bound;
    final ExprOrOpArgNode[] args;
    final Set<Integer> reads;

    Binding(Binding outer, SymbolNode[] bound, ExprOrOpArgNode[] args, Set<Integer> reads) {
      this.outer = outer;
      this.bound = bound;
      this.args = args;
      this.reads = reads;
    }
  }

  private enum Outcome {
    TRUE,
    FALSE,
    UNEVALUABLE
  }

  /** A conjunct, or without a node the arguments of a definition, which only have to have a value. */
  private static final class Part {
    final OpApplNode node;
    final Binding binding;
    final int[] reads;
    final Map<List<Integer>, Outcome> known = new HashMap<>();

    Part(OpApplNode node, Binding binding, Set<Integer> reads) {
      this.node = node;
      this.binding = binding;
      this.reads = reads.stream().mapToInt(Integer::intValue).toArray();
    }
  }

  private final ITool tool;
  private final Context context;
  private final List<UniqueString> variables;
  private final List<Part> parts = new ArrayList<>();

  Conjuncts(ITool tool, Action action, UniqueString[] variables) {
    this.tool = tool;
    this.context = action.con;
    this.variables = Arrays.asList(variables);
    collect(action.pred, null);
  }

  private void collect(SemanticNode node, Binding binding) {
    if (node instanceof LetInNode) collect(((LetInNode) node).getBody(), binding);
    if (node instanceof SubstInNode) collectInInstance((SubstInNode) node, binding);
    if (!(node instanceof OpApplNode)) return;
    OpApplNode application = (OpApplNode) node;
    ExprOrOpArgNode[] args = application.getArgs();
    OpDefNode definition = Labels.definition(application);
    if (Guards.isConjunction(application)) {
      for (ExprOrOpArgNode conjunct : args) collect(conjunct, binding);
    } else if (definition != null) {
      Set<Integer> reads = reads(binding, args);
      Binding inner = new Binding(binding, definition.getParams(), args, reads);
      parts.add(new Part(null, inner, reads));
      collect(definition.getBody(), inner);
    } else if (application.getLevel() <= LevelConstants.VariableLevel) {
      parts.add(new Part(application, binding, reads(binding, application)));
    }
  }

  private void collectInInstance(SubstInNode node, Binding binding) {
    Subst[] all = node.getSubsts();
    SymbolNode[] bound = new SymbolNode[all.length];
    ExprOrOpArgNode[] args = new ExprOrOpArgNode[all.length];
    for (int i = 0; i < all.length; i++) {
      bound[i] = all[i].getOp();
      args[i] = all[i].getExpr();
    }
    collect(node.getBody(), new Binding(binding, bound, args, null));
  }

  /** The numbers of the variables that these read, or what is bound around them. */
  private Set<Integer> reads(Binding binding, LevelNode... nodes) {
    Set<Integer> found = new TreeSet<>();
    for (Binding one = binding; one != null; one = one.outer) {
      if (one.reads != null) found.addAll(one.reads);
    }
    for (LevelNode node : nodes) {
      for (SymbolNode symbol : node.getAllParams()) found.addAll(read(binding, symbol));
    }
    return found;
  }

  /** What a symbol reads: of an instance's variable, what that stands for. */
  private Set<Integer> read(Binding binding, SymbolNode symbol) {
    for (Binding one = binding; one != null; one = one.outer) {
      int at = one.reads == null ? Arrays.asList(one.bound).indexOf(symbol) : -1;
      if (at >= 0) return reads(one.outer, one.args[at]);
    }
    int number = variables.indexOf(symbol.getName());
    return number < 0 ? Set.of() : Set.of(number);
  }

  /**
   * Which conjuncts are false, by the numbers of the values of a state. What stands behind one that
   * cannot be evaluated is left out.
   */
  BitSet falseOnes(TLCState state, int[] values) {
    BitSet found = new BitSet(parts.size());
    for (int i = 0; i < parts.size(); i++) {
      Part part = parts.get(i);
      Integer[] read = new Integer[part.reads.length];
      for (int j = 0; j < read.length; j++) read[j] = values[part.reads[j]];
      Outcome outcome = part.known.computeIfAbsent(Arrays.asList(read), key -> evaluate(part, state));
      if (outcome == Outcome.UNEVALUABLE) break;
      if (outcome == Outcome.FALSE) found.set(i);
    }
    return found;
  }

  /** Where these conjuncts stand. */
  Set<String> places(BitSet conjuncts) {
    Set<String> places = new TreeSet<>();
    conjuncts.stream().forEach(i -> places.add(parts.get(i).node.getLocation().toString()));
    return places;
  }

  private Outcome evaluate(Part part, TLCState state) {
    try {
      Context inner = bound(part.binding, state);
      if (part.node == null) return Outcome.TRUE;
      boolean isFalse = BoolValue.ValFalse.equals(tool.eval(part.node, inner, state));
      return isFalse ? Outcome.FALSE : Outcome.TRUE;
    } catch (RuntimeException unevaluable) {
      return Outcome.UNEVALUABLE;
    }
  }

  private Context bound(Binding binding, TLCState state) {
    if (binding == null) return context;
    Context outer = bound(binding.outer, state);
    Context inner = outer;
    for (int i = 0; i < binding.args.length; i++) {
      inner = inner.cons(binding.bound[i], tool.eval(binding.args[i], outer, state));
    }
    return inner;
  }
}
