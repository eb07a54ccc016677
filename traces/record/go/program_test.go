package recorder

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestMain runs the tests, or, where the environment names a journal, a program that writes one as
// its standard input asks: the tests in Python compare it with theirs, and kill it.
func TestMain(m *testing.M) {
	if path := os.Getenv("HIGHWATER_JOURNAL"); path != "" {
		writeJournals(path)
		return
	}
	os.Exit(m.Run())
}

func writeJournals(path string) {
	window := int(number(os.Getenv("HIGHWATER_WINDOW")))
	j := opened(path, window)
	asked := bufio.NewScanner(os.Stdin)
	asked.Buffer(nil, 1<<20)
	for asked.Scan() {
		words := strings.Fields(asked.Text())
		numbers := func(from, to int) (found []int64) {
			for _, one := range words[from:to] {
				found = append(found, number(one))
			}
			return found
		}
		switch words[0] {
		case "open":
			j = opened(words[1], window)
		case "line":
			j.line(raw(words[1]))
		case "send":
			n := numbers(1, 4)
			j.send(int32(n[0]), n[1], n[2], raw(words[4]), number(words[5]))
		case "report":
			n := numbers(1, 6)
			j.report(n[0], n[1], n[2], n[3], n[4])
		case "poll":
			j.poll(raw(words[1]), raw(words[2]))
		case "close":
			j.close()
		case "clock":
			fmt.Println(now(), clockDomain)
		case "sync":
			fmt.Println("done")
		}
	}
}

func opened(path string, window int) *journal {
	j, err := createJournal(path, window)
	if err != nil {
		log.Fatal(err)
	}
	return j
}

// raw undoes what the tests in Python put into a word: "-" is no bytes, "." is none of them.
func raw(word string) []byte {
	if word == "-" {
		return nil
	}
	found, err := base64.StdEncoding.DecodeString(strings.Trim(word, "."))
	if err != nil {
		log.Fatal(err)
	}
	return found
}

func number(word string) int64 {
	found, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	return found
}
