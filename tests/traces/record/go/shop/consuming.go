package main

import (
	"context"
	"fmt"
	"log"
	"math/rand"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"highwater/recorder"
)

func (s *shop) reading() []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(strings.Split(s.bootstrap, ",")...), kgo.FetchMaxWait(200 * time.Millisecond)}
	if s.has("committed") {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	return opts
}

func (s *shop) joining() []kgo.Opt {
	opts := append(
		s.reading(),
		kgo.ConsumerGroup(s.text("group", s.topic+"-readers")),
		kgo.ConsumeTopics(s.topic),
		kgo.HeartbeatInterval(300*time.Millisecond),
	)
	switch s.text("protocol", "cooperative") {
	case "eager":
		opts = append(opts, kgo.Balancers(kgo.RangeBalancer()))
	case "consumer":
		opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	if s.has("session_ms") {
		opts = append(opts, kgo.SessionTimeout(time.Duration(s.number("session_ms"))*time.Millisecond))
	}
	interval := kgo.AutoCommitInterval(300 * time.Millisecond)
	switch s.text("auto", "no") {
	case "no":
		return append(opts, kgo.DisableAutoCommit())
	case "greedy":
		return append(opts, interval, kgo.GreedyAutoCommit())
	case "marks":
		return append(opts, interval, kgo.AutoCommitMarks())
	}
	return append(opts, interval)
}

func (s *shop) consumer(name string) *recorder.Client {
	var options []recorder.Option
	if s.text("auto", "no") == "no" {
		order := "process_then_commit"
		if s.has("early") {
			order = s.text("order", "process_then_commit")
		}
		options = append(options, recorder.CommitOrder(order))
	}
	return must(recorder.Wrap(kgo.NewClient(s.recorder(name, options...).Opts(s.joining()...)...)))
}

func (s *shop) consume() {
	client := s.consumer("consumer")
	defer client.Close()
	defer s.pending.Wait()
	for seen := 0; seen < s.count; {
		fetches := client.PollRecords(s.ctx, s.number("most"))
		if err := fetches.Err(); err != nil {
			log.Fatal(err)
		}
		seen += s.handle(client, fetches)
		if s.has("dies") && seen > s.count/2 {
			die()
		}
	}
}

// handle does what the application does with a poll, in its order.
func (s *shop) handle(client *recorder.Client, fetches kgo.Fetches) int {
	if fetches.NumRecords() == 0 {
		return 0
	}
	if s.has("early") {
		s.commit(client, fetches)
		s.dieIfDue()
	}
	done := client.Process(fetches)
	time.Sleep(time.Duration(fetches.NumRecords()*s.number("work_us")) * time.Microsecond)
	done()
	if !s.has("early") {
		s.dieIfDue()
		s.commit(client, fetches)
	}
	return fetches.NumRecords()
}

func (s *shop) commit(client *recorder.Client, fetches kgo.Fetches) {
	var err error
	switch {
	case s.text("auto", "no") == "marks":
		client.MarkCommitRecords(fetches.Records()...)
	case s.text("auto", "no") != "no":
	case s.has("records"):
		err = client.CommitRecords(s.ctx, fetches.Records()...)
	case s.has("async"):
		s.pending.Add(1)
		client.CommitOffsets(s.ctx, client.UncommittedOffsets(), s.answered)
	default:
		err = client.CommitUncommittedOffsets(s.ctx)
	}
	if err != nil {
		fmt.Println("refused", err)
	}
}

func (s *shop) answered(*kgo.Client, *kmsg.OffsetCommitRequest, *kmsg.OffsetCommitResponse, error) {
	s.pending.Done()
}

func (s *shop) dieIfDue() {
	after := time.Duration(s.number("dies_after_ms")) * time.Millisecond
	if after > 0 && time.Since(s.began) > after {
		die()
	}
}

// direct reads without a group, goes back once, and reads the same again.
func (s *shop) direct() {
	opts := append(s.reading(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		s.topic: {0: kgo.NewOffset().At(0), 1: kgo.NewOffset().AtStart(), 2: kgo.NewOffset().AtStart()},
	}))
	client := must(recorder.Wrap(kgo.NewClient(s.recorder("reader").Opts(opts...)...)))
	defer client.Close()
	for range 2 {
		for seen := 0; seen < s.count; {
			fetches := client.PollFetches(s.ctx)
			if err := fetches.Err(); err != nil {
				log.Fatal(err)
			}
			seen += fetches.NumRecords()
		}
		start := kgo.EpochOffset{Epoch: -1}
		client.SetOffsets(map[string]map[int32]kgo.EpochOffset{s.topic: {0: start, 1: start, 2: start}})
	}
}

// members come and go: each reads for a while, leaves, and is back as another process.
func (s *shop) members() {
	until := time.Now().Add(time.Duration(s.count) * time.Second)
	var all sync.WaitGroup
	for member := range s.number("members") {
		chance := rand.New(rand.NewSource(int64(s.number("seed") + member)))
		all.Go(func() {
			for time.Now().Before(until) {
				stay := 3*time.Second + time.Duration(chance.Intn(4000))*time.Millisecond
				s.incarnation("m"+strconv.Itoa(member), min(stay, time.Until(until)))
			}
		})
	}
	all.Wait()
}

func (s *shop) incarnation(name string, stay time.Duration) {
	ctx, cancel := context.WithTimeout(s.ctx, stay)
	defer cancel()
	name = s.text("prefix", "") + name
	client := s.consumer(name)
	defer client.Close()
	for ctx.Err() == nil {
		s.handle(client, client.PollRecords(ctx, 50))
	}
}

// leave polls twice and closes the client, recorded or not; whatever is committed then is the
// client's own doing. It prints those offsets.
func (s *shop) leave() {
	opts := s.joining()
	var client poller
	if s.has("plain") {
		client = must(kgo.NewClient(opts...))
	} else {
		client = must(recorder.Wrap(kgo.NewClient(s.recorder("leaver").Opts(opts...)...)))
	}
	for seen := 0; seen < 2*s.number("most"); {
		fetches := client.PollRecords(s.ctx, min(s.number("most"), 2*s.number("most")-seen))
		if s.text("auto", "no") == "marks" && seen == 0 {
			client.MarkCommitRecords(fetches.Records()...)
		}
		seen += fetches.NumRecords()
	}
	client.Close()
	admin := must(kgo.NewClient(s.reading()...))
	defer admin.Close()
	asked := kmsg.NewPtrOffsetFetchRequest()
	asked.Group = s.text("group", s.topic+"-readers")
	one := kmsg.NewOffsetFetchRequestGroup()
	one.Group = asked.Group
	asked.Groups = append(asked.Groups, one)
	answer := must(asked.RequestWith(s.ctx, admin))
	for _, topic := range answer.Groups[0].Topics {
		for _, at := range topic.Partitions {
			fmt.Println(topic.Topic, at.Partition, at.Offset)
		}
	}
}

type poller interface {
	PollRecords(context.Context, int) kgo.Fetches
	MarkCommitRecords(...*kgo.Record)
	Close()
}
