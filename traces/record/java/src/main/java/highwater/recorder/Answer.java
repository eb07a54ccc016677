package highwater.recorder;

import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.RecordMetadata;

/** The callback of one send, in front of the application's own. */
final class Answer implements Callback {
  private final Recording recording;
  private final Sends sends;
  private final long seq;
  private final Callback users;
  /** The sending thread, until the call has returned; no other thread compares equal. */
  private Thread sending = Thread.currentThread();
  private boolean answered;

  Answer(Recording recording, Sends sends, long seq, Callback users) {
    this.recording = recording;
    this.sends = sends;
    this.seq = seq;
    this.users = users;
  }

  @Override
  public void onCompletion(RecordMetadata metadata, Exception error) {
    boolean inCall = sending == Thread.currentThread();
    if (inCall) {
      answered = true;
    }
    try {
      if (error == null) {
        sends.stored(seq, metadata);
      } else {
        sends.refused(seq, metadata, error, inCall);
      }
    } catch (RuntimeException | Error mistake) {
      recording.broken(mistake);
    }
    if (users != null) {
      users.onCompletion(metadata, error);
    }
  }

  /** The call has returned; true if it answered by itself that it sends nothing. */
  boolean returned() {
    sending = null;
    return answered;
  }

  /** The call has raised. */
  void raised(Throwable error) {
    sending = null;
    if (!answered) {
      try {
        sends.refused(seq, null, error, true);
      } catch (RuntimeException | Error mistake) {
        recording.broken(mistake);
      }
    }
  }
}
