import java.util.HashMap;
import java.util.Map;
import tlc2.tool.TLCState;
import tlc2.util.FP64;
import tlc2.value.IValue;
import tlc2.value.impl.Value;
import util.UniqueString;

/**
 * What somebody says that a state is: values for some of its variables.
 *
 * <p>Compared by fingerprint, as TLC compares states: its own comparison of values fails on values of
 * different kinds, and here a value of the wrong kind is a finding, not an error.
 */
final class Logged {
  private final Map<UniqueString, Value> values = new HashMap<>();
  private final Map<UniqueString, Long> prints = new HashMap<>();

  Logged(Object json) {
    for (Map.Entry<?, ?> field : ((Map<?, ?>) json).entrySet()) {
      UniqueString name = UniqueString.uniqueStringOf((String) field.getKey());
      Value value = Json.toTla(field.getValue());
      values.put(name, value);
      prints.put(name, print(value));
    }
  }

  boolean matches(TLCState state) {
    for (Map.Entry<UniqueString, Long> one : prints.entrySet()) {
      if (one.getValue() != print(state.lookup(one.getKey()))) return false;
    }
    return true;
  }

  /** The variables that differ: for each TAB name TAB the state's value TAB the logged value. */
  String differences(TLCState state) {
    StringBuilder text = new StringBuilder();
    for (Map.Entry<UniqueString, Value> one : values.entrySet()) {
      IValue actual = state.lookup(one.getKey());
      if (print(actual) == prints.get(one.getKey())) continue;
      text.append('\t').append(one.getKey());
      text.append('\t').append(Labels.print(actual));
      text.append('\t').append(Labels.print(one.getValue()));
    }
    return text.toString();
  }

  private static long print(IValue value) {
    value.deepNormalize();
    return value.fingerPrint(FP64.New());
  }
}
