// A producer that is paced, plain and recorded in turn, with the CPU time that each takes.
//
//	pace BOOTSTRAP TOPIC RUN ROUNDS SECONDS RATE
//
// A rate of 0 is full speed. It prints a line for each round: which kind it is, messages that were
// acknowledged, nanoseconds, and nanoseconds of CPU.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"highwater/recorder"
)

var padding = bytes.Repeat([]byte("x"), 900)

// client is what a plain client and a recorded one have in common.
type client interface {
	Produce(context.Context, *kgo.Record, func(*kgo.Record, error))
	Flush(context.Context) error
	Close()
}

func main() {
	if len(os.Args) != 7 {
		log.Fatal("expected BOOTSTRAP TOPIC RUN ROUNDS SECONDS RATE")
	}
	rounds := must(strconv.Atoi(os.Args[4]))
	seconds := must(strconv.ParseFloat(os.Args[5], 64))
	rate := must(strconv.ParseInt(os.Args[6], 10, 64))
	opts := []kgo.Opt{
		kgo.SeedBrokers(os.Args[1]),
		kgo.DefaultProduceTopic(os.Args[2]),
		kgo.ProducerLinger(5 * time.Millisecond),
		kgo.MaxBufferedRecords(100_000),
	}
	made := must(recorder.New(os.Args[3], "bench"))
	// The first round of each kind warms everything up.
	for round := -2; round < 2*rounds; round++ {
		kind, used := "plain", client(nil)
		if round&1 == 1 {
			kind, used = "recorded", must(recorder.Wrap(kgo.NewClient(made.Opts(opts...)...)))
		} else {
			used = must(kgo.NewClient(opts...))
		}
		stored, took, spent := play(used, seconds, rate)
		if round >= 0 {
			fmt.Println(kind, stored, took, spent)
		}
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func play(used client, seconds float64, rate int64) (stored, took, spent int64) {
	defer used.Close()
	var acknowledged atomic.Int64
	promise := func(_ *kgo.Record, err error) {
		if err == nil {
			acknowledged.Add(1)
		}
	}
	ctx := context.Background()
	used.Produce(ctx, &kgo.Record{Value: message(0)}, promise)
	must(0, used.Flush(ctx))
	acknowledged.Store(0)
	cpu, began := cpuTime(), time.Now()
	lasts := time.Duration(seconds * float64(time.Second))
	for number := int64(0); time.Since(began) < lasts; number++ {
		if rate > 0 {
			due := time.Duration(number * int64(time.Second) / rate)
			for time.Since(began) < due {
				time.Sleep(time.Millisecond)
			}
		}
		used.Produce(ctx, &kgo.Record{Value: message(number)}, promise)
	}
	must(0, used.Flush(ctx))
	return acknowledged.Load(), int64(time.Since(began)), cpuTime() - cpu
}

// message is a document of 1 KB, made anew as an application does.
func message(number int64) []byte {
	text := make([]byte, 0, 1024)
	text = fmt.Appendf(text, `{"order":%d,"at":%d,"padding":"`, number, time.Now().UnixMilli())
	return append(append(text, padding...), `"}`...)
}

func cpuTime() int64 {
	var used syscall.Rusage
	must(0, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return used.Utime.Nano() + used.Stime.Nano()
}
