package main

import (
	"context"
	"fmt"
	"log"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
	"highwater/recorder"
)

// transactions are those of a producer alone, of which every fourth is aborted.
func (s *shop) transactions() {
	opts := append(s.producing(), kgo.TransactionalID(s.topic+"-till"))
	var client producer
	if s.has("hook") {
		client = must(kgo.NewClient(append(opts, kgo.WithHooks(s.recorder("till").Hook()))...))
	} else {
		client = must(recorder.Wrap(kgo.NewClient(s.recorder("till").Opts(opts...)...)))
	}
	defer client.Close()
	for round, number := 1, 0; number < s.count; round++ {
		must(0, client.BeginTransaction())
		for range must(strconv.Atoi(s.text("each", "10"))) {
			client.Produce(s.ctx, s.message(number), nil)
			number++
		}
		must(0, client.Flush(s.ctx))
		if s.has("dies") && number > s.count/2 {
			die()
		}
		must(0, client.EndTransaction(s.ctx, kgo.TransactionEndTry(round%4 != 0)))
	}
}

type producer interface {
	BeginTransaction() error
	Produce(context.Context, *kgo.Record, func(*kgo.Record, error))
	Flush(context.Context) error
	EndTransaction(context.Context, kgo.TransactionEndTry) error
	Close()
}

// session reads, and writes what it read to another topic, in transactions of which every fourth
// is aborted.
func (s *shop) session() {
	s.settings["committed"] = ""
	opts := append(s.joining(), kgo.TransactionalID(s.topic+"-mover"), kgo.RequireStableFetchOffsets())
	made := s.recorder("mover", recorder.CommitOrder("transaction")).Opts(opts...)
	session := must(recorder.WrapSession(kgo.NewGroupTransactSession(made...)))
	defer session.Close()
	for round, moved := 1, 0; moved < s.count; round++ {
		fetches := session.PollRecords(s.ctx, must(strconv.Atoi(s.text("most", "50"))))
		if err := fetches.Err(); err != nil {
			log.Fatal(err)
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		must(0, session.Begin())
		fetches.EachRecord(func(one *kgo.Record) {
			copied := &kgo.Record{Topic: s.topic + "-moved", Key: one.Key, Value: one.Value}
			session.Produce(s.ctx, copied, nil)
		})
		committed, err := session.End(s.ctx, kgo.TransactionEndTry(round%4 != 0))
		if err != nil {
			log.Fatal(err)
		}
		if committed {
			session.Processed(fetches)
			moved += fetches.NumRecords()
		} else {
			fmt.Println("aborted", round)
		}
	}
}

// hooked is an application that knows of no wrapper.
func (s *shop) hooked() {
	hook := func(name string) kgo.Opt { return kgo.WithHooks(s.recorder(name).Hook()) }
	producer := must(kgo.NewClient(append(s.producing(), hook("producer"))...))
	for number := range s.count {
		producer.Produce(s.ctx, s.message(number), nil)
	}
	must(0, producer.Flush(s.ctx))
	producer.Close()
	consumer := must(kgo.NewClient(append(s.joining(), hook("consumer"))...))
	for seen := 0; seen < s.count; {
		fetches := consumer.PollFetches(s.ctx)
		if err := fetches.Err(); err != nil {
			log.Fatal(err)
		}
		seen += fetches.NumRecords()
		must(0, consumer.CommitUncommittedOffsets(s.ctx))
	}
	consumer.Close()
}
