package recorder

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"
)

// The clock of a recording is that of the recorder in Python where the machine has one for all: on
// Linux, CLOCK_MONOTONIC. Elsewhere this process has a clock of its own, and its times are compared
// with nobody's.
var clockDomain, clockBase, clockBegan = clock()

// now is the time in nanoseconds, which never steps back.
func now() int64 {
	return clockBase + int64(time.Since(clockBegan))
}

func clock() (domain string, base int64, began time.Time) {
	if boot := bootName(); boot != "" {
		if base, began, ok := monotonic(); ok {
			return boot, base, began
		}
	}
	return "go-" + rand.Text(), 0, time.Now()
}

func bootName() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	name := strings.TrimSpace(string(id))
	if err != nil || len(name) < 8 {
		return ""
	}
	return fmt.Sprintf("boot-%s", name[:8])
}
