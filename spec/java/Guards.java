import java.util.Set;
import tla2sany.semantic.ExprOrOpArgNode;
import tla2sany.semantic.LetInNode;
import tla2sany.semantic.LevelConstants;
import tla2sany.semantic.OpApplNode;
import tla2sany.semantic.OpDefNode;
import tla2sany.semantic.SemanticNode;
import tla2sany.semantic.Subst;
import tla2sany.semantic.SubstInNode;
import tlc2.tool.ITool;
import tlc2.tool.TLCState;
import tlc2.util.Context;
import tlc2.value.impl.BoolValue;

/** Finds the parts of an action that forbid it in a state: its false conjuncts, as deep as they go. */
final class Guards {
  private static final Set<String> CONJUNCTION = Set.of("\\land", "$ConjList");

  private final ITool tool;
  private final TLCState state;

  Guards(ITool tool, TLCState state) {
    this.tool = tool;
    this.state = state;
  }

  /** The place of the false guard, or null where no single conjunct is to blame. */
  String falseOne(SemanticNode node, Context context) {
    try {
      return search(node, context);
    } catch (RuntimeException unevaluable) {
      return null;
    }
  }

  static boolean isConjunction(OpApplNode node) {
    return CONJUNCTION.contains(node.getOperator().getName().toString());
  }

  private String search(SemanticNode node, Context context) {
    if (node instanceof LetInNode) return search(((LetInNode) node).getBody(), context);
    if (node instanceof SubstInNode) return inInstance((SubstInNode) node, context);
    if (!(node instanceof OpApplNode)) return null;
    OpApplNode application = (OpApplNode) node;
    ExprOrOpArgNode[] args = application.getArgs();
    if (isConjunction(application)) {
      for (ExprOrOpArgNode conjunct : args) {
        String found = search(conjunct, context);
        if (found != null) return found;
      }
      return null;
    }
    String deeper = inDefinition(application, args, context);
    if (deeper != null) return deeper;
    if (application.getLevel() > LevelConstants.VariableLevel) return null;
    boolean isFalse = BoolValue.ValFalse.equals(tool.eval(application, context, state));
    return isFalse ? application.getLocation().toString() : null;
  }

  /** The definitions of an instance read its own constants and variables: each stands for an expression of ours. */
  private String inInstance(SubstInNode node, Context context) {
    Context inner = context;
    for (Subst one : node.getSubsts()) {
      inner = inner.cons(one.getOp(), tool.getVal(one.getExpr(), context, true));
    }
    return search(node.getBody(), inner);
  }

  private String inDefinition(OpApplNode node, ExprOrOpArgNode[] args, Context context) {
    OpDefNode definition = Labels.definition(node);
    if (definition == null) return null;
    Context inner = context;
    for (int i = 0; i < args.length; i++) {
      inner = inner.cons(definition.getParams()[i], tool.eval(args[i], context, state));
    }
    return search(definition.getBody(), inner);
  }
}
