// A small application, recorded: what a user of the recorder writes.
//
//	shop SCENARIO BOOTSTRAP TOPIC RUN COUNT [NAME=VALUE …]
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"highwater/recorder"
)

const patience = 2 * time.Minute

type shop struct {
	bootstrap, topic, run string
	count                 int
	settings              map[string]string
	ctx                   context.Context
	began                 time.Time
	pending               sync.WaitGroup // commits
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 6 {
		log.Fatal("expected SCENARIO BOOTSTRAP TOPIC RUN COUNT [NAME=VALUE …]")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s := &shop{bootstrap: os.Args[2], topic: os.Args[3], run: os.Args[4], ctx: ctx, began: time.Now()}
	s.count = must(strconv.Atoi(os.Args[5]))
	s.settings = make(map[string]string)
	for _, one := range os.Args[6:] {
		name, value, _ := strings.Cut(one, "=")
		s.settings[name] = value
	}
	scenarios := map[string]func(){
		"produce":      s.produce,
		"consume":      s.consume,
		"healthy":      func() { s.produce(); s.consume() },
		"direct":       func() { s.produce(); s.direct() },
		"members":      s.members,
		"transactions": s.transactions,
		"session":      func() { s.produce(); s.session() },
		"hooked":       s.hooked,
		"leave":        s.leave,
	}
	if s.has("count") {
		s.count = s.number("count")
	}
	play, known := scenarios[os.Args[1]]
	if !known {
		log.Fatalf("no scenario is called %s", os.Args[1])
	}
	play()
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func (s *shop) text(name, otherwise string) string {
	if value, given := s.settings[name]; given {
		return value
	}
	return otherwise
}

func (s *shop) number(name string) int {
	return must(strconv.Atoi(s.text(name, "0")))
}

func (s *shop) has(name string) bool {
	_, given := s.settings[name]
	return given
}

// recorder is that of one client of the application.
func (s *shop) recorder(name string, options ...recorder.Option) *recorder.Recorder {
	if s.has("hashes") {
		options = append(options, recorder.Hashes())
	}
	return must(recorder.New(s.run, s.text("name", name), options...))
}

func (s *shop) producing() []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(strings.Split(s.bootstrap, ",")...), kgo.DefaultProduceTopic(s.topic)}
	if s.text("acks", "all") == "1" {
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()))
	}
	if s.has("unsafe") {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	if s.has("retries") {
		opts = append(opts, kgo.RecordRetries(s.number("retries")))
	}
	if s.has("timeout_ms") {
		timeout := time.Duration(s.number("timeout_ms")) * time.Millisecond
		opts = append(opts, kgo.ProduceRequestTimeout(timeout), kgo.RequestTimeoutOverhead(timeout))
	}
	return opts
}

func (s *shop) message(number int) *kgo.Record {
	return &kgo.Record{Key: []byte(fmt.Sprint("k", number%7)), Value: []byte(strconv.Itoa(number))}
}

func (s *shop) produce() {
	client := must(recorder.Wrap(kgo.NewClient(s.recorder("producer").Opts(s.producing()...)...)))
	defer client.Close()
	for number := range s.count {
		client.Produce(s.ctx, s.message(number), nil)
		if s.has("dies") && number == s.count/2 {
			die()
		}
		time.Sleep(time.Duration(s.number("pause_ms")) * time.Millisecond)
	}
	if err := client.Flush(s.ctx); err != nil {
		log.Fatal(err)
	}
}

// die ends the process as an operator does who has lost patience.
func die() {
	must(0, must(os.FindProcess(os.Getpid())).Kill())
	select {}
}
