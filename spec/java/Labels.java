import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import tla2sany.semantic.ASTConstants;
import tla2sany.semantic.ExprOrOpArgNode;
import tla2sany.semantic.FormalParamNode;
import tla2sany.semantic.LetInNode;
import tla2sany.semantic.LevelConstants;
import tla2sany.semantic.OpApplNode;
import tla2sany.semantic.OpDefNode;
import tla2sany.semantic.SemanticNode;
import tlc2.tool.Action;
import tlc2.tool.EvalControl;
import tlc2.tool.IContextEnumerator;
import tlc2.tool.ITool;
import tlc2.tool.StateVec;
import tlc2.tool.TLCState;
import tlc2.util.Context;
import tlc2.value.IValue;

/**
 * The actions of a model with their arguments, and the successors by each.
 *
 * <p>TLC splits Next at disjunctions, and at quantifiers and definitions as far as it can evaluate them
 * without a state; the arguments of the innermost definition are then in the action's context. What it
 * leaves whole because a set or an argument depends on the state ({@code \E m \in messages : Receive(m)})
 * is split here by the same rule, state by state.
 */
final class Labels {
  /** An action with its arguments. {@code text} is NAME, then FORMAL=VALUE for each, tab between. */
  static final class Label {
    final int id;
    final String name;
    final String text;

    Label(int id, String name, String text) {
      this.id = id;
      this.name = name;
      this.text = text;
    }
  }

  interface Visitor {
    void step(Label label, TLCState successor);
  }

  private static final Set<String> DISJUNCTION = Set.of("\\lor", "$DisjList");
  private static final Set<String> STANDARD =
      Set.of("Naturals", "Integers", "Reals", "Sequences", "FiniteSets", "Bags", "TLC");
  private static final String EXISTS = "$BoundedExists";

  final List<Label> all = new ArrayList<>();
  private final Map<String, Label> byText = new HashMap<>();
  private final ITool tool;
  private final Action[] actions;
  /** The label of an action that needs no further splitting, else null. */
  private final Label[] whole;

  Labels(ITool tool) {
    this.tool = tool;
    actions = tool.getActions();
    whole = new Label[actions.length];
    for (int i = 0; i < actions.length; i++) {
      Action action = actions[i];
      if (!leadsToDefinition(action.pred)) whole[i] = label(action.getOpDef(), action.con);
    }
  }

  /** Every step from a state that the model's constraints allow. */
  void steps(TLCState state, Visitor visitor) throws Exception {
    for (int i = 0; i < actions.length; i++) {
      if (whole[i] != null) {
        successors(whole[i], actions[i], state, visitor);
      } else {
        split(actions[i].pred, actions[i].con, actions[i].getOpDef(), state, visitor);
      }
    }
  }

  private void successors(Label label, Action action, TLCState state, Visitor visitor)
      throws Exception {
    StateVec next = tool.getNextStates(action, state);
    for (int i = 0; i < next.size(); i++) {
      TLCState successor = next.elementAt(i);
      if (tool.isInModel(successor) && tool.isInActions(state, successor)) {
        visitor.step(label, successor);
      }
    }
  }

  private void split(
      SemanticNode node, Context context, OpDefNode inside, TLCState state, Visitor visitor)
      throws Exception {
    if (!leadsToDefinition(node)) {
      successors(label(inside, context), new Action(node, context, inside), state, visitor);
    } else if (node instanceof LetInNode) {
      split(((LetInNode) node).getBody(), context, inside, state, visitor);
    } else {
      splitApplication((OpApplNode) node, context, inside, state, visitor);
    }
  }

  private void splitApplication(
      OpApplNode node, Context context, OpDefNode inside, TLCState state, Visitor visitor)
      throws Exception {
    ExprOrOpArgNode[] args = node.getArgs();
    String operator = node.getOperator().getName().toString();
    if (DISJUNCTION.contains(operator)) {
      for (ExprOrOpArgNode branch : args) split(branch, context, inside, state, visitor);
    } else if (EXISTS.equals(operator)) {
      IContextEnumerator bindings =
          tool.contexts(node, context, state, TLCState.Empty, EvalControl.Clear);
      for (Context one; (one = bindings.nextElement()) != null; ) {
        split(args[0], one, inside, state, visitor);
      }
    } else {
      OpDefNode definition = (OpDefNode) node.getOperator();
      Context inner = context;
      for (int i = 0; i < args.length; i++) {
        inner = inner.cons(definition.getParams()[i], tool.eval(args[i], context, state));
      }
      split(definition.getBody(), inner, definition, state, visitor);
    }
  }

  /** Whether splitting further would arrive at another definition, whose name is then the label. */
  private static boolean leadsToDefinition(SemanticNode node) {
    if (node instanceof LetInNode) return leadsToDefinition(((LetInNode) node).getBody());
    if (!(node instanceof OpApplNode)) return false;
    OpApplNode application = (OpApplNode) node;
    String operator = application.getOperator().getName().toString();
    if (DISJUNCTION.contains(operator) || EXISTS.equals(operator)) {
      for (ExprOrOpArgNode branch : application.getArgs()) {
        if (leadsToDefinition(branch)) return true;
      }
      return false;
    }
    return definition(application) != null;
  }

  /**
   * The definition of this project's that an application stands for, or null: for an operator of a
   * standard module, which only looks like a definition, or where an argument is itself an action.
   */
  static OpDefNode definition(OpApplNode application) {
    if (application.getOperator().getKind() != ASTConstants.UserDefinedOpKind) return null;
    OpDefNode definition = (OpDefNode) application.getOperator();
    if (STANDARD.contains(definition.getLocation().source())) return null;
    for (ExprOrOpArgNode argument : application.getArgs()) {
      if (argument.getLevel() > LevelConstants.VariableLevel) return null;
    }
    return definition;
  }

  private Label label(OpDefNode definition, Context context) {
    StringBuilder text = new StringBuilder(definition.getName().toString());
    for (FormalParamNode formal : definition.getParams()) {
      IValue argument = (IValue) context.lookup(formal);
      argument.deepNormalize();
      text.append('\t').append(formal.getName()).append('=').append(print(argument));
    }
    return byText.computeIfAbsent(
        text.toString(),
        key -> {
          Label label = new Label(all.size(), definition.getName().toString(), key);
          all.add(label);
          return label;
        });
  }

  static String print(IValue value) {
    return value.toString().replace("\n", " ");
  }
}
