package recorder

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestAWrongArgumentIsOneClearMessage(t *testing.T) {
	run := t.TempDir()
	file := filepath.Join(run, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []struct {
		run, name string
		option    Option
		message   string
	}{
		{run, "p/0", nil, `name: expected text without /, \ and # that begins with no dot, found "p/0"`},
		{run, "p#0", nil, "name: "},
		{run, ".p", nil, "name: "},
		{run, "", nil, "name: "},
		{"", "p", nil, "run: expected the folder of the run, found nothing"},
		{filepath.Join(file, "run"), "p", nil, "run: cannot record in "},
		{run, "p", CommitOrder("never"), "CommitOrder: expected one of auto, commit_then_process, none, process_then_commit, transaction, found \"never\""},
		{run, "p", ID(nil), "ID: expected a function, found nil"},
	} {
		options := []Option{}
		if wrong.option != nil {
			options = append(options, wrong.option)
		}
		_, err := New(wrong.run, wrong.name, options...)
		if err == nil || !strings.HasPrefix(err.Error(), wrong.message) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

func TestAClientThatCannotBeRecordedIsNotReturned(t *testing.T) {
	made, run := newRecorder(t, "p")
	refused := errors.New("refused")
	if _, err := Wrap(nil, refused); !errors.Is(err, refused) {
		t.Errorf("an error of the client: %v", err)
	}
	if _, err := Wrap(kgo.NewClient(nobody)); err == nil || !strings.Contains(err.Error(), "Recorder.Opts") {
		t.Errorf("a client without our options: %v", err)
	}
	opts := made.Opts(nobody)
	if first, err := Wrap(kgo.NewClient(opts...)); err != nil {
		t.Error(err)
	} else {
		defer first.Close()
	}
	if _, err := Wrap(kgo.NewClient(opts...)); err == nil || !strings.Contains(err.Error(), "ask Opts for each client") {
		t.Errorf("options of another client: %v", err)
	}
	if _, err := Wrap(kgo.NewClient(made.Opts(nobody, kgo.ShareGroup("g"), kgo.ConsumeTopics("t"))...)); err == nil || !strings.HasPrefix(err.Error(), "ShareGroup: ") {
		t.Errorf("a member of a share group: %v", err)
	}
	if err := os.RemoveAll(run); err != nil {
		t.Fatal(err)
	}
	if _, err := Wrap(kgo.NewClient(made.Opts(nobody)...)); err == nil || !strings.HasPrefix(err.Error(), "run: cannot record in ") {
		t.Errorf("a folder that is gone: %v", err)
	}
}

func TestAHookThatCannotRecordWarns(t *testing.T) {
	made, run := newRecorder(t, "p")
	if err := os.RemoveAll(run); err != nil {
		t.Fatal(err)
	}
	said := warnings(t)
	client(t, kgo.WithHooks(made.Hook()))
	if !strings.Contains(said.String(), "p is not recorded: run: cannot record in ") {
		t.Error(said)
	}
}

func TestEachClientIsAnIncarnation(t *testing.T) {
	made, run := newRecorder(t, "p")
	if err := os.WriteFile(filepath.Join(run, "p#1.ndjson.gz"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first, second := wrap(t, made.Opts()), wrap(t, made.Opts())
	if first.RecordedAs() != "p#0" || second.RecordedAs() != "p#2" {
		t.Error(first.RecordedAs(), second.RecordedAs())
	}
	first.Close()
	found := lines(t, journalOf(run, "p#0"))
	if head, last := found[0], found[len(found)-1]; head["process"] != "p#0" || head["role"] != "producer" || last["op"] != "close" {
		t.Error(found)
	}
}
