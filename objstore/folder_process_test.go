package objstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/memwal/memwal-go/objstore"
)

const (
	racerDir = "MEMWAL_TEST_RACER_DIR"
	racerID  = "MEMWAL_TEST_RACER_ID"
	racers   = 4
	raceKeys = 100
)

// TestMain lets the test binary be one of the processes that race for keys.
func TestMain(m *testing.M) {
	if dir := os.Getenv(racerDir); dir != "" {
		if err := race(dir, os.Getenv(racerID)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// race puts every key and prints those it won.
func race(dir, id string) error {
	s, err := objstore.NewFolder(dir)
	if err != nil {
		return err
	}
	var gate [1]byte
	if _, err := os.Stdin.Read(gate[:]); err == nil { // wait until all are up
		return errors.New("the gate gave a byte")
	}
	for i := range raceKeys {
		key := fmt.Sprintf("deep/folder-%d/key", i)
		_, err := s.PutIfAbsent(context.Background(), key, objstore.Body{[]byte(id)})
		switch {
		case err == nil:
			fmt.Println(key)
		case !errors.Is(err, objstore.ErrExists):
			return err
		}
	}
	return s.Close()
}

func TestS03_OneWinnerAmongProcessesOnEveryKey(t *testing.T) {
	dir := t.TempDir()
	gate, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	var outs [racers]strings.Builder
	var cmds [racers]*exec.Cmd
	for i := range cmds {
		cmds[i] = exec.CommandContext(t.Context(), os.Args[0])
		cmds[i].Env = append(os.Environ(), racerDir+"="+dir, fmt.Sprintf("%s=%d", racerID, i))
		cmds[i].Stdin, cmds[i].Stdout, cmds[i].Stderr = gate, &outs[i], os.Stderr
		if err := cmds[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	hold.Close()
	winner := map[string]int{}
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Fatalf("process %d: %v", i, err)
		}
		for _, key := range strings.Fields(outs[i].String()) {
			if other, ok := winner[key]; ok {
				t.Errorf("processes %d and %d both won %s", other, i, key)
			}
			winner[key] = i
		}
	}
	if len(winner) != raceKeys {
		t.Errorf("%d keys were won, want all %d", len(winner), raceKeys)
	}
	s, err := objstore.NewFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for key, i := range winner {
		if data, err := s.Get(t.Context(), key); err != nil || string(data) != fmt.Sprint(i) {
			t.Errorf("%s holds %q (%v), its winner wrote %d", key, data, err, i)
		}
	}
}
