/**
 * A recorder for Kafka's Java clients: what they do and see becomes a process of a trace.
 *
 * <p>{@link highwater.recorder.Recorded} wraps a client; the two interceptors record an application
 * whose code may not change. Nothing that goes wrong in here reaches the application: the recording
 * stops, and a warning tells why.
 */
package highwater.recorder;
