import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.StringJoiner;
import java.util.stream.Collectors;
import tla2sany.drivers.SANY;
import tla2sany.modanalyzer.SpecObj;
import tla2sany.semantic.ExprOrOpArgNode;
import tla2sany.semantic.FormalParamNode;
import tla2sany.semantic.LetInNode;
import tla2sany.semantic.ModuleNode;
import tla2sany.semantic.OpApplNode;
import tla2sany.semantic.OpDeclNode;
import tla2sany.semantic.OpDefNode;
import tla2sany.semantic.SemanticNode;
import util.SimpleFilenameToStream;
import util.ToolIO;

/**
 * Prints the names that a module declares and the actions that its Next is made of, one a line:
 * {@code constant NAME}, {@code variable NAME}, {@code action NAME FORMAL...}.
 *
 * <p>Needs no configuration: the actions are found as TLC finds them, by going down from Next through
 * disjunctions, quantifiers and definitions, without evaluating anything. The action is the innermost
 * definition on that way.
 *
 * <p>Usage: {@code SpecNames MODULE}, in the module's folder.
 */
public class SpecNames {
  private static final Set<String> BRANCHING =
      Set.of("\\lor", "$DisjList", "$BoundedExists", "$UnboundedExists");

  private final Map<String, String> actions = new LinkedHashMap<>();
  private final Set<OpDefNode> entered = new HashSet<>();

  public static void main(String[] args) throws Exception {
    PrintStream out = System.out;
    ByteArrayOutputStream said = new ByteArrayOutputStream();
    ToolIO.out = new PrintStream(said, true);
    SpecObj spec = new SpecObj(args[0], new SimpleFilenameToStream());
    initialize(spec);
    SANY.frontEndParse(spec, ToolIO.out);
    if (spec.getParseErrors().isSuccess()) SANY.frontEndSemanticAnalysis(spec, ToolIO.out, true);
    if (!spec.getParseErrors().isSuccess() || !spec.getSemanticErrors().isSuccess()) {
      System.err.print(said);
      System.exit(1);
    }
    ModuleNode root = spec.getExternalModuleTable().getRootModule();
    for (String name : inOrder(root.getConstantDecls())) out.println("constant " + name);
    for (String name : inOrder(root.getVariableDecls())) out.println("variable " + name);
    OpDefNode next = root.getOpDef("Next");
    if (next == null) return;
    SpecNames names = new SpecNames();
    names.descend(next.getBody(), next);
    names.actions.forEach((name, formals) -> out.println(("action " + name + " " + formals).trim()));
  }

  /** What SANY of 2020 has to be told first, and SANY of 2026 does by itself. */
  private static void initialize(SpecObj spec) throws ReflectiveOperationException {
    try {
      SANY.class
          .getMethod("frontEndInitialize", SpecObj.class, PrintStream.class)
          .invoke(null, spec, ToolIO.out);
    } catch (NoSuchMethodException gone) {
      return;
    }
  }

  /** SANY hands declarations out in any order; here they come as they stand in the module. */
  static List<String> inOrder(OpDeclNode[] declared) {
    return Arrays.stream(declared)
        .sorted(
            Comparator.comparing((OpDeclNode node) -> node.getLocation().source())
                .thenComparingInt(node -> node.getLocation().beginLine())
                .thenComparingInt(node -> node.getLocation().beginColumn()))
        .map(node -> node.getName().toString())
        .collect(Collectors.toList());
  }

  private void descend(SemanticNode node, OpDefNode inside) {
    if (node instanceof LetInNode) {
      descend(((LetInNode) node).getBody(), inside);
    } else if (node instanceof OpApplNode) {
      apply((OpApplNode) node, inside);
    } else {
      add(inside);
    }
  }

  private void apply(OpApplNode node, OpDefNode inside) {
    if (BRANCHING.contains(node.getOperator().getName().toString())) {
      for (ExprOrOpArgNode branch : node.getArgs()) descend(branch, inside);
      return;
    }
    OpDefNode definition = Labels.definition(node);
    if (definition == null) {
      add(inside);
    } else if (entered.add(definition)) {
      descend(definition.getBody(), definition);
    }
  }

  private void add(OpDefNode action) {
    StringJoiner formals = new StringJoiner(" ");
    for (FormalParamNode formal : action.getParams()) formals.add(formal.getName().toString());
    actions.put(action.getName().toString(), formals.toString());
  }
}
