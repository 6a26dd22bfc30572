package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memwal/memwal-go/objstore"
)

func soakRun(t *testing.T, ctx context.Context, stdout *notifyWriter, args ...string) (int, string, string, soakFigures) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out.json")
	var errs bytes.Buffer
	code := command(ctx, append(args, "-json", path), stdout, &errs)
	var f soakFigures
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil && code != 2 {
		t.Fatal(err)
	}
	return code, stdout.w.String(), errs.String(), f
}

// silent is a notifyWriter that notifies nobody.
func silent() *notifyWriter { return &notifyWriter{w: new(bytes.Buffer), mark: "\x00", hit: func() {}} }

func TestBenchSoak(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, store := range []string{"mem://", ""} { // and a fresh folder
		args := strings.Fields("-soak 1s -faults -seed 5 -writers 2 -read 1 -compress zstd")
		if store != "" {
			args = append(args, "-store", store)
		}
		code, out, errs, f := soakRun(t, t.Context(), silent(), args...)
		if code != 0 {
			t.Fatalf("exit code %d: %s\n%s", code, errs, out)
		}
		if f.Seed != 5 || f.Rounds == 0 || f.Snapshots == 0 || f.Losses != 0 || // what else happens depends on the machine
			f.Requests[string(objstore.OpPutIfAbsent)].Requests == 0 || f.PeakRSSMB <= 1 || f.Error != "" {
			t.Errorf("figures are %+v", f)
		}
		if f.Options["soak"] != "1s" || f.Options["compress"] != "zstd" || f.Options["rows"] != nil {
			t.Errorf("options are %v", f.Options)
		}
		for _, line := range []string{"seed 5", "before=503", "round        1: ", "\nlosses       0\n", "\ninjected ", "\nrequests ", "\nmemory       heap "} {
			if !strings.Contains(out, line) {
				t.Errorf("printed no %q:\n%s", line, out)
			}
		}
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "memwal-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// A violation ends the soak with exit code 1, says where it was found, and saves the
// shard if the store ends with the program.
func TestBenchSoakViolation(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	script := filepath.Join(t.TempDir(), "faults.txt")
	if err := os.WriteFile(script, []byte("op=put-if-absent key=_mem_wal/*/wal/* count=always ignore-condition"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs, f := soakRun(t, t.Context(), silent(), "-soak", "1m", "-seed", "3", "-store", "mem://", "-fault-script", script)
	if code != 1 || !strings.Contains(errs, "seed 3, round ") || !strings.Contains(errs, os.TempDir()) || !strings.Contains(errs, f.Error) || f.Error == "" {
		t.Errorf("exit code %d: %s\n%s", code, errs, out)
	}
	if saved, _ := filepath.Glob(filepath.Join(os.TempDir(), "memwal-soak-*", "_mem_wal", "*", "wal", "*")); len(saved) == 0 {
		t.Error("no entries were saved")
	}
	folder := t.TempDir()
	code, _, errs, _ = soakRun(t, t.Context(), silent(), "-soak", "1m", "-seed", "3", "-store", "file://"+folder, "-fault-script", script)
	if left, _ := filepath.Glob(filepath.Join(folder, "_mem_wal", "*", "wal", "*")); code != 1 || len(left) == 0 || !strings.Contains(errs, "left in the store") {
		t.Errorf("exit code %d, %d entries are left: %s", code, len(left), errs)
	}
}

// An interrupted soak completes its round.
func TestBenchSoakInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdout := &notifyWriter{w: new(bytes.Buffer), mark: "round        1: ", hit: cancel}
	code, out, errs, f := soakRun(t, ctx, stdout, strings.Fields("-soak 10s -store mem:// -writers 1 -read 0")...)
	if code != 130 || !strings.Contains(errs, "verified") || f.Rounds == 0 || f.Error == "" {
		t.Errorf("exit code %d, %d rounds: %s\n%s", code, f.Rounds, errs, out)
	}
}
