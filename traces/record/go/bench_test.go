package recorder

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// BenchmarkSend is what the recorder adds to a send and its report, in time of the CPU.
func BenchmarkSend(b *testing.B) {
	made, err := New(b.TempDir(), "p")
	if err != nil {
		b.Fatal(err)
	}
	c, err := kgo.NewClient(append(made.Opts(), nobody)...)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	o := observerOf(c)
	b.ReportAllocs()
	for b.Loop() {
		record := &kgo.Record{Topic: "t"}
		o.OnProduceRecordBuffered(record)
		o.OnProduceRecordUnbuffered(record, nil)
	}
}
