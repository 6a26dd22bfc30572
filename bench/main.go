package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second Ctrl-C ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(command(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// errInterrupted: the run was stopped from outside, and drained.
var errInterrupted = errors.New("interrupted: rows that were taken are durable, nothing was verified")

// command is the program; it returns the exit code.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parseFlags(args, stdout)
	switch {
	case err != nil:
	case c.Compare != nil:
		err = compare(stdout, c.Compare[0], c.Compare[1])
	case c.Soak > 0:
		err = runSoak(ctx, c, stdout, stderr)
	default:
		err = newBench(c, stdout, stderr).run(ctx)
	}
	switch _, usage := errors.AsType[*usageError](err); {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errInterrupted), errors.Is(err, errSoakInterrupted):
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 130
	case usage:
		fmt.Fprintf(stderr, "bench: %v\n(bench -help lists the flags)\n", err)
		return 2
	default:
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 1
	}
}

// terminalWidth returns the columns of the terminal behind w, or false if it is
// none.
func terminalWidth(w io.Writer) (int, bool) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		width = 80
	}
	return width, true
}
