package recorder

import (
	"fmt"
	"os"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A Recorder records the clients of one name: its incarnations are name#0, name#1, and so on.
type Recorder struct {
	run, name string
	choices   choices
}

// New returns a recorder that writes to the folder of a run, which it makes if it is not there.
// The name is the client's in the trace.
func New(run, name string, options ...Option) (*Recorder, error) {
	r := &Recorder{run: run, name: name, choices: choices{window: windowSize}}
	if err := checkName(name); err != nil {
		return nil, err
	}
	if run == "" {
		return nil, fmt.Errorf("run: expected the folder of the run, found nothing")
	}
	for _, choose := range options {
		if err := choose(&r.choices); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(run, 0o755); err != nil {
		return nil, fmt.Errorf("run: cannot record in %s: %w", run, err)
	}
	return r, nil
}

// Opts returns the options of one client together with those by which it is recorded. It is asked
// anew for each client.
//
// Rebalances and automatic commits are seen if the application has no callbacks for them, or makes
// its own by [OnPartitionsAssigned], [OnPartitionsRevoked], [OnPartitionsLost] and
// [AutoCommitCallback] of this package. With kgo.WithContext, automatic commits are written down
// when they are answered, and otherwise before they are sent.
func (r *Recorder) Opts(opts ...kgo.Opt) []kgo.Opt {
	o := newObserver(r)
	return slices.Concat(callbacksFor(opts, o), opts, []kgo.Opt{kgo.WithHooks(o)})
}

// Hook returns a hook for a client that is not wrapped: it sees sends, their reports, and the
// records of polls. The trace says what it does not see. Each client wants a hook of its own.
func (r *Recorder) Hook() kgo.Hook {
	return newLoneObserver(r)
}
