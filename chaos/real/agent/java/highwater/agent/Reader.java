package highwater.agent;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;

/** Reads Kafka's objects by name: classes move between packages from version to version, names stay. */
final class Reader {
  private static final ClassValue<Map<String, MethodHandle>> KNOWN =
      new ClassValue<>() {
        @Override
        protected Map<String, MethodHandle> computeValue(Class<?> type) {
          return new ConcurrentHashMap<>();
        }
      };

  private static final ClassValue<Map<String, Boolean>> OPTIONAL =
      new ClassValue<>() {
        @Override
        protected Map<String, Boolean> computeValue(Class<?> type) {
          return new ConcurrentHashMap<>();
        }
      };

  private Reader() {}

  /** The value of a method without arguments, or of a field. */
  static Object get(Object of, String name) {
    return invoked(of, name, 0);
  }

  /** True if its class has such a method or field: some came with a version. */
  static boolean has(Object of, String name) {
    return OPTIONAL.get(of.getClass()).computeIfAbsent(name, __ -> find(of.getClass(), name, 0) != null);
  }

  /** The result of a method with these arguments; of overloaded ones the first with as many. */
  static Object call(Object on, String method, Object... arguments) {
    return invoked(on, method, arguments.length, arguments);
  }

  static long number(Object of, String name) {
    return ((Number) get(of, name)).longValue();
  }

  static boolean flag(Object of, String name) {
    return (Boolean) get(of, name);
  }

  /** What a Java or a Scala option holds, or null. */
  static Object held(Object option) {
    if (option instanceof Optional<?> optional) return optional.orElse(null);
    return flag(option, "isDefined") ? get(option, "get") : null;
  }

  /** The items of a Java or a Scala collection, or of an array of int. */
  static List<Object> items(Object many) {
    if (many instanceof Collection<?> collection) return new ArrayList<>(collection);
    List<Object> found = new ArrayList<>();
    if (many instanceof int[] numbers) {
      for (int one : numbers) found.add(one);
      return found;
    }
    for (Object i = get(many, "iterator"); flag(i, "hasNext"); ) found.add(get(i, "next"));
    return found;
  }

  private static Object invoked(Object on, String name, int count, Object... arguments) {
    MethodHandle handle =
        KNOWN.get(on.getClass()).computeIfAbsent(name + "/" + count, __ -> found(on.getClass(), name, count));
    try {
      Object[] all = new Object[count + 1];
      all[0] = on;
      System.arraycopy(arguments, 0, all, 1, count);
      return handle.invokeWithArguments(all);
    } catch (Throwable wrong) {
      throw new IllegalStateException(on.getClass().getName() + "." + name + ": " + wrong, wrong);
    }
  }

  private static MethodHandle found(Class<?> type, String name, int count) {
    MethodHandle handle = find(type, name, count);
    if (handle == null) throw new IllegalStateException(type.getName() + " has no " + name);
    return handle;
  }

  private static MethodHandle find(Class<?> type, String name, int count) {
    try {
      for (Class<?> c = type; c != null; c = c.getSuperclass()) {
        for (Method method : c.getDeclaredMethods()) {
          if (method.getName().equals(name) && method.getParameterCount() == count) return open(method);
        }
        for (Field field : c.getDeclaredFields()) {
          if (count == 0 && field.getName().equals(name)) {
            field.setAccessible(true);
            return MethodHandles.lookup().unreflectGetter(field);
          }
        }
      }
      for (Method method : type.getMethods()) {
        if (method.getName().equals(name) && method.getParameterCount() == count) return open(method);
      }
    } catch (IllegalAccessException wrong) {
      throw new IllegalStateException(wrong);
    }
    return null;
  }

  private static MethodHandle open(Method method) throws IllegalAccessException {
    method.setAccessible(true);
    return MethodHandles.lookup().unreflect(method);
  }
}
