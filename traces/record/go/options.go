package recorder

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/twmb/franz-go/pkg/kgo"
)

// An Option is a choice of the application about the recording of its client.
type Option func(*choices) error

type choices struct {
	commitOrder string
	hashes      bool
	id          func(*kgo.Record) any
	window      int
}

var orders = []string{"auto", "commit_then_process", "none", "process_then_commit", "transaction"}

// CommitOrder declares the habit of a consumer's application, which the client cannot know:
// "process_then_commit", "commit_then_process", "transaction" where its offsets go with the
// outputs, "auto" or "none".
func CommitOrder(order string) Option {
	return func(c *choices) error {
		if !slices.Contains(orders, order) {
			return fmt.Errorf("CommitOrder: expected one of %s, found %q", strings.Join(orders, ", "), order)
		}
		c.commitOrder = order
		return nil
	}
}

// Hashes writes down a hash of each message's key, value and headers, where it is sent and where
// it is read.
func Hashes() Option {
	return func(c *choices) error {
		c.hashes = true
		return nil
	}
}

// ID names the application's own id of a message: of any integer type, a string, or nil where
// there is none. Without it every record that is sent gets the header highwater-id.
func ID(of func(*kgo.Record) any) Option {
	return func(c *choices) error {
		if of == nil {
			return fmt.Errorf("ID: expected a function, found nil")
		}
		c.id = of
		return nil
	}
}

func checkName(name string) error {
	isWrong := func(r rune) bool { return strings.ContainsRune(`/\#`, r) || unicode.IsControl(r) }
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsFunc(name, isWrong) {
		return fmt.Errorf(`name: expected text without /, \ and # that begins with no dot, found %q`, name)
	}
	return nil
}
