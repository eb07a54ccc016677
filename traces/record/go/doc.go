// Package recorder writes down what a franz-go client does and sees, as a process of a trace
// that `highwater check` judges.
//
// A [Recorder] names the client and the folder of the run. Its options go to the client, and
// [Wrap] takes what kgo.NewClient returns:
//
//	rec, err := recorder.New("runs/orders-17", "c0", recorder.CommitOrder("process_then_commit"))
//	...
//	client, err := recorder.Wrap(kgo.NewClient(rec.Opts(
//		kgo.SeedBrokers("localhost:9092"),
//		kgo.ConsumerGroup("billing"),
//		kgo.ConsumeTopics("orders"),
//		kgo.DisableAutoCommit(),
//	)...))
//	...
//	for {
//		fetches := client.PollFetches(ctx)
//		handle(fetches)
//		client.Processed(fetches)
//		client.CommitUncommittedOffsets(ctx)
//	}
//
// [New] and [Wrap] return an error where they are called wrongly, or cannot write to the folder.
// Later nothing reaches the application: a full disk, or a mistake of the recorder, stops the
// recording with one warning of log/slog.
//
// An entry is copied into memory that is mapped into a file, its checksum last. So a process that
// is killed loses nothing of it.
package recorder
