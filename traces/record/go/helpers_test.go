package recorder

import (
	"bytes"
	"encoding/json"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// nobody is an address where no broker answers.
var nobody = kgo.SeedBrokers("127.0.0.1:1")

type line = map[string]any

// lines are the entries of a journal in order; compact ones have their tag as `tag`, and their
// numbers and keys behind the head as `body`.
func lines(t *testing.T, path string) []line {
	t.Helper()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if mark := string(whole[:4]); mark != tagMark {
		t.Fatalf("the journal begins with %q", mark)
	}
	found := []line{}
	for at := 4; at+8 <= len(whole) && little.Uint32(whole[at:]) != 0; {
		size := int(little.Uint32(whole[at+4:]))
		stretch := 12 + size + (4-size)&7
		if sum := max(crc32.ChecksumIEEE(whole[at+4:at+stretch]), 1); sum != little.Uint32(whole[at:]) {
			t.Fatalf("byte %d: the entry is not what its checksum says", at)
		}
		if at%8 != 4 {
			t.Fatalf("byte %d: an entry begins behind no border", at)
		}
		body, tag := whole[at+8:at+8+size], string(whole[at+stretch-4:at+stretch])
		one := line{"tag": tag, "body": body}
		if tag == tagLine {
			one = line{}
			decoder := json.NewDecoder(bytes.NewReader(body))
			decoder.UseNumber()
			if err := decoder.Decode(&one); err != nil {
				t.Fatal(err)
			}
		}
		at += stretch
		if tag == tagFilled {
			at += int(little.Uint32(body)) + 4
			continue
		}
		found = append(found, one)
	}
	return found
}

// calls are the lines with an op, of which one has the name.
func calls(t *testing.T, path, op string) []line {
	t.Helper()
	found := []line{}
	for _, one := range lines(t, path) {
		if one["op"] == op {
			found = append(found, one)
		}
	}
	return found
}

// newRecorder records into a folder of its own.
func newRecorder(t *testing.T, name string, options ...Option) (made *Recorder, run string) {
	t.Helper()
	run = t.TempDir()
	made, err := New(run, name, options...)
	if err != nil {
		t.Fatal(err)
	}
	return made, run
}

// client makes a client that finds no broker, and is closed at the end of the test.
func client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	made, err := kgo.NewClient(append([]kgo.Opt{nobody}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

func wrap(t *testing.T, opts []kgo.Opt) *Client {
	t.Helper()
	made, err := Wrap(kgo.NewClient(append([]kgo.Opt{nobody}, opts...)...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

// warnings are those that are logged until the test ends.
func warnings(t *testing.T) *bytes.Buffer {
	t.Helper()
	said, before := new(bytes.Buffer), slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(said, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return said
}

func journalOf(run, process string) string {
	return filepath.Join(run, process+".journal")
}
