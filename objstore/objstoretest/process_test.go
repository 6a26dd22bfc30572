package objstoretest_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/memwal/memwal-go/objstore"
)

const raceKeys, raceProcesses = 150, 4

func raceKey(i int) string { return fmt.Sprintf("shard%d/wal/%03d", i%3, i) }

// TestS03_OneWinnerAmongProcesses has processes race for every key of a folder, the making
// of its folders included.
func TestS03_OneWinnerAmongProcesses(t *testing.T) {
	if dir := os.Getenv("OBJSTORETEST_RACE"); dir != "" {
		race(t, dir)
		return
	}
	// A process may be done before the others were given a core: then again.
	for range 10 {
		if winners := runRace(t, t.TempDir()+"/not/yet/there"); winners > 1 || t.Failed() {
			return
		}
	}
	t.Error("there was no race: one process won all, each time")
}

// runRace lets the processes race once, and returns how many of them won a key.
func runRace(t *testing.T, dir string) int {
	t.Helper()
	winners := make(map[string]string)
	type child struct {
		cmd *exec.Cmd
		*bufio.Scanner
	}
	var children []child
	var starts []func() error
	for p := range raceProcesses {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestS03_OneWinnerAmongProcesses$")
		cmd.Env = append(os.Environ(), "OBJSTORETEST_RACE="+dir, fmt.Sprint("OBJSTORETEST_NAME=", p))
		cmd.Stderr = os.Stderr
		in, inErr := cmd.StdinPipe()
		out, outErr := cmd.StdoutPipe()
		if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		children = append(children, child{cmd, bufio.NewScanner(out)})
		starts = append(starts, in.Close)
	}
	for _, c := range children {
		if !c.Scan() || c.Text() != "ready" {
			t.Fatalf("a process is not ready: %q, %v", c.Text(), c.Err())
		}
	}
	for _, start := range starts {
		if err := start(); err != nil {
			t.Fatal(err)
		}
	}
	processes := make(map[string]bool)
	for p, c := range children {
		for c.Scan() {
			var name, key string
			if n, _ := fmt.Sscanf(c.Text(), "won %s %s", &name, &key); n != 2 {
				continue
			}
			if other, taken := winners[key]; taken {
				t.Errorf("%s was won by %s and by %s", key, other, name)
			}
			winners[key] = name
			processes[name] = true
		}
		if err := c.cmd.Wait(); err != nil {
			t.Errorf("process %d: %v", p, err)
		}
	}
	s, err := objstore.NewFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raceKeys {
		data, err := s.Get(t.Context(), raceKey(i))
		if err != nil || !strings.HasPrefix(string(data), "process "+winners[raceKey(i)]+"\n") {
			t.Errorf("%s: won by %q, has %.20q, %v", raceKey(i), winners[raceKey(i)], data, err)
		}
	}
	return len(processes)
}

// race is what each of the processes does.
func race(t *testing.T, dir string) {
	name := os.Getenv("OBJSTORETEST_NAME")
	body := objstore.Body{[]byte("process " + name + "\n"), make([]byte, 10_000)}
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the parent closes it
	s, err := objstore.NewFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	first := int(name[0]-'0') * raceKeys / raceProcesses // each begins elsewhere
	for n := range raceKeys {
		i := (first + n) % raceKeys
		_, err := s.PutIfAbsent(t.Context(), raceKey(i), body)
		switch {
		case err == nil:
			fmt.Println("won", name, raceKey(i))
		case !errors.Is(err, objstore.ErrExists):
			t.Errorf("%s: %v", raceKey(i), err)
		}
	}
}
