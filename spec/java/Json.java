import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import tlc2.value.impl.BoolValue;
import tlc2.value.impl.FcnRcdValue;
import tlc2.value.impl.IntValue;
import tlc2.value.impl.ModelValue;
import tlc2.value.impl.RecordValue;
import tlc2.value.impl.SetEnumValue;
import tlc2.value.impl.StringValue;
import tlc2.value.impl.TupleValue;
import tlc2.value.impl.Value;
import util.UniqueString;

/**
 * Reads one JSON text, as the protocol events of this project use it, into Java's lists, maps, strings,
 * integers and booleans; and those into TLC's values. There are no floats and no nulls in a protocol.
 */
final class Json {
  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  static Object read(String text) {
    Json json = new Json(text);
    Object value = json.value();
    json.space();
    if (json.at != text.length()) throw json.wrong("more than one value");
    return value;
  }

  /** A list is a sequence, {"set": [...]} a set, {"fun": [[k, v]...]} a function, others are records. */
  static Value toTla(Object json) {
    if (json instanceof Integer) return IntValue.gen((Integer) json);
    if (json instanceof Boolean) return (Boolean) json ? BoolValue.ValTrue : BoolValue.ValFalse;
    if (json instanceof String) return new StringValue((String) json);
    if (json instanceof List) return new TupleValue(all((List<?>) json));
    Map<?, ?> object = (Map<?, ?>) json;
    if (object.size() == 1) {
      Object inner = object.values().iterator().next();
      if (object.containsKey("set")) return new SetEnumValue(all((List<?>) inner), false);
      if (object.containsKey("fun")) return function((List<?>) inner);
      if (object.containsKey("model")) return ModelValue.make((String) inner);
    }
    return record(object);
  }

  private static Value[] all(List<?> items) {
    Value[] values = new Value[items.size()];
    for (int i = 0; i < values.length; i++) values[i] = toTla(items.get(i));
    return values;
  }

  private static Value function(List<?> pairs) {
    Value[] domain = new Value[pairs.size()];
    Value[] values = new Value[pairs.size()];
    for (int i = 0; i < domain.length; i++) {
      domain[i] = toTla(((List<?>) pairs.get(i)).get(0));
      values[i] = toTla(((List<?>) pairs.get(i)).get(1));
    }
    return new FcnRcdValue(domain, values, false);
  }

  private static Value record(Map<?, ?> object) {
    UniqueString[] names = new UniqueString[object.size()];
    Value[] values = new Value[object.size()];
    int i = 0;
    for (Map.Entry<?, ?> field : object.entrySet()) {
      names[i] = UniqueString.uniqueStringOf((String) field.getKey());
      values[i++] = toTla(field.getValue());
    }
    return new RecordValue(names, values, false);
  }

  private Object value() {
    space();
    char first = at < text.length() ? text.charAt(at) : ' ';
    if (first == '{') return object();
    if (first == '[') return list();
    if (first == '"') return string();
    if (text.startsWith("true", at)) return word("true", true);
    if (text.startsWith("false", at)) return word("false", false);
    return number();
  }

  private Object word(String word, boolean value) {
    at += word.length();
    return value;
  }

  private List<Object> list() {
    List<Object> items = new ArrayList<>();
    for (at++; !closes(']', items.isEmpty()); ) items.add(value());
    return items;
  }

  private Map<String, Object> object() {
    Map<String, Object> fields = new LinkedHashMap<>();
    for (at++; !closes('}', fields.isEmpty()); ) {
      space();
      String name = string();
      space();
      expect(':');
      fields.put(name, value());
    }
    return fields;
  }

  /** Whether the end is here; if not, goes past the comma before the next item. */
  private boolean closes(char end, boolean first) {
    space();
    if (at < text.length() && text.charAt(at) == end) {
      at++;
      return true;
    }
    if (!first) expect(',');
    return false;
  }

  private String string() {
    expect('"');
    int end = at;
    while (text.charAt(end) != '"' && text.charAt(end) != '\\') end++;
    if (text.charAt(end) == '"') {
      String plain = text.substring(at, end);
      at = end + 1;
      return plain;
    }
    StringBuilder built = new StringBuilder();
    for (char c; (c = text.charAt(at++)) != '"'; ) built.append(c == '\\' ? escaped() : c);
    return built.toString();
  }

  private char escaped() {
    char c = text.charAt(at++);
    if (c == 'u') {
      at += 4;
      return (char) Integer.parseInt(text.substring(at - 4, at), 16);
    }
    int known = "bfnrt".indexOf(c);
    return known < 0 ? c : "\b\f\n\r\t".charAt(known);
  }

  private Integer number() {
    int end = at;
    while (end < text.length() && "-0123456789".indexOf(text.charAt(end)) >= 0) end++;
    if (end == at) throw wrong("no value");
    int number = Integer.parseInt(text.substring(at, end));
    at = end;
    return number;
  }

  private void space() {
    while (at < text.length() && text.charAt(at) <= ' ') at++;
  }

  private void expect(char c) {
    if (at >= text.length() || text.charAt(at) != c) throw wrong("expected " + c);
    at++;
  }

  private IllegalArgumentException wrong(String what) {
    return new IllegalArgumentException(what + " at character " + at + " of " + text);
  }
}
