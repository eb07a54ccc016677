//go:build unix

package recorder

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAJournalGoesOnInTheNextWindow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j := opened(path, 4096)
	if err := j.head([]byte(`{"seq":0}`)); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for seq := range int64(2000) {
		all.Go(func() { j.report(seq, 1, 2, 3, 4) })
	}
	all.Wait()
	j.line([]byte(`{"note":"` + strings.Repeat("x", 9000) + `"}`))
	j.close()
	j.report(0, 0, 0, 0, 0) // after the end, nothing
	if found := lines(t, path); len(found) != 2002 {
		t.Error(len(found), "entries")
	}
}

func TestAJournalIsLockedWhileItIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	j := opened(path, 4096)
	other, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	if err := lock(other); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Error(err)
	}
	j.close()
	if err := lock(other); err != nil {
		t.Error(err)
	}
}

func TestAFullDiskStopsTheRecordingOnce(t *testing.T) {
	said := warnings(t)
	path := filepath.Join(t.TempDir(), "p#0.journal")
	j := opened(path, 4096)
	limit(t, 3*4096)
	for seq := range int64(1000) {
		j.report(seq, 1, 2, 3, 4)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(whole) != 3*4096 || string(whole[:4]) != tagStopped {
		t.Errorf("%d bytes, %q", len(whole), whole[:4])
	}
	if strings.Count(said.String(), "p#0.journal: recording has stopped: file too large") != 1 {
		t.Error(said)
	}
}

func TestNothingIsLeftOfARecordingThatCannotBegin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p#0.journal")
	j := opened(path, 4096)
	limit(t, 4000)
	if err := j.head([]byte("{}")); !errors.Is(err, unix.EFBIG) {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// limit is on the size of files, which refuses a write as a full disk does.
func limit(t *testing.T, size uint64) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_FSIZE, &before) })
}
