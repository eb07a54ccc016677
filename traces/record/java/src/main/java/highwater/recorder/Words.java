package highwater.recorder;

import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.common.protocol.Errors;

/** The names of errors in a trace: Kafka's own, or that of the exception's class. */
final class Words {
  private Words() {}

  static String error(Throwable thrown) {
    Errors known = known(thrown);
    return known == null ? cause(thrown).getClass().getSimpleName() : known.name();
  }

  /** The error of Kafka's protocol that an exception stands for, or null. */
  static Errors known(Throwable thrown) {
    Errors found = Errors.forException(cause(thrown));
    return found == Errors.UNKNOWN_SERVER_ERROR || found == Errors.NONE ? null : found;
  }

  private static Throwable cause(Throwable thrown) {
    boolean wraps = thrown instanceof CompletionException || thrown instanceof ExecutionException;
    return wraps && thrown.getCause() != null ? thrown.getCause() : thrown;
  }
}
