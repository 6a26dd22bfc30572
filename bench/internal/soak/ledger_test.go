package soak

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// start opens an incarnation that issues and has acknowledged so many rows.
func start(t *testing.T, l *ledger, number uint32, epoch, base, issued, acked uint64) *incarnation {
	t.Helper()
	inc, err := l.open(number, epoch, base)
	if err != nil {
		t.Fatal(err)
	}
	l.issue(inc, issued)
	if err := l.acknowledge(inc, acked); err != nil {
		t.Fatal(err)
	}
	return inc
}

func TestLedgerOfAHistory(t *testing.T) {
	var l ledger
	first := start(t, &l, 1, 1, 0, 10, 4)
	second := start(t, &l, 2, 3, 7, 5, 5) // three rows more than were acknowledged
	if _, err := l.open(3, 2, 7); err != nil {
		t.Fatal(err) // its reply came late, it has an epoch between both
	}
	start(t, &l, 4, 4, 12, 0, 0)
	start(t, &l, 5, 5, 12, 2, 1)
	if err := l.acknowledge(first, 7); err != nil {
		t.Fatal(err) // the reply came late; the rows are below the base of epoch 3
	}
	if err := errors.Join(l.show(3), l.show(12), l.show(14), l.closed(second)); err != nil {
		t.Fatal(err)
	}
	want := []segment{{1, 0, 7}, {2, 7, 12}, {5, 12, 14}}
	if got := l.history(14); !slices.Equal(got, want) {
		t.Errorf("history is %v, want %v", got, want)
	}
	if got := l.history(9); !slices.Equal(got, []segment{{1, 0, 7}, {2, 7, 9}}) {
		t.Errorf("history of 9 rows is %v", got)
	}
	if n := l.acknowledged(); n != 13 {
		t.Errorf("%d rows are acknowledged, want 13", n)
	}
	if issued, acked := l.sums(); issued != 17 || acked != 13 {
		t.Errorf("issued %d, acknowledged %d", issued, acked)
	}
}

// Every way to break a promise is found, and rows that are lost are counted.
func TestLedgerFindsViolations(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		lost       uint64
		do         func(t *testing.T, l *ledger) error
	}{
		{"acknowledged rows are not found", "3 acknowledged rows are lost", 3, func(t *testing.T, l *ledger) error {
			start(t, l, 1, 1, 0, 10, 8)
			_, err := l.open(2, 2, 5)
			return err
		}},
		{"acknowledged beyond a later base", "1 acknowledged rows are lost", 1, func(t *testing.T, l *ledger) error {
			inc := start(t, l, 1, 1, 0, 10, 5)
			start(t, l, 2, 2, 5, 0, 0)
			return l.acknowledge(inc, 6)
		}},
		{"an older epoch finds more", "the open of epoch 2 found 9 rows", 0, func(t *testing.T, l *ledger) error {
			start(t, l, 1, 1, 0, 5, 5)
			start(t, l, 2, 3, 5, 0, 0)
			_, err := l.open(3, 2, 9)
			return err
		}},
		{"rows that were shown are gone", "those up to 7 were shown", 0, func(t *testing.T, l *ledger) error {
			start(t, l, 1, 1, 0, 10, 5)
			if err := l.show(7); err != nil {
				t.Fatal(err)
			}
			_, err := l.open(2, 2, 6)
			return err
		}},
		{"found more than was issued", "had issued only those up to 10", 0, func(t *testing.T, l *ledger) error {
			start(t, l, 1, 1, 0, 10, 5)
			_, err := l.open(2, 2, 11)
			return err
		}},
		{"rows before the first", "that nobody has put", 0, func(t *testing.T, l *ledger) error {
			_, err := l.open(1, 1, 2)
			return err
		}},
		{"shown more than was issued", "a snapshot shows 11 rows", 0, func(t *testing.T, l *ledger) error {
			start(t, l, 1, 1, 0, 10, 5)
			return l.show(11)
		}},
		{"shown before anybody has put", "nobody has put any", 0, func(t *testing.T, l *ledger) error { return l.show(1) }},
		{"an epoch twice", "two opens have epoch 4", 0, func(t *testing.T, l *ledger) error {
			start(t, l, 1, 4, 0, 10, 5)
			_, err := l.open(2, 4, 5)
			return err
		}},
		{"acknowledged what was not issued", "11 rows were acknowledged", 0, func(t *testing.T, l *ledger) error {
			return l.acknowledge(start(t, l, 1, 1, 0, 10, 5), 11)
		}},
		{"acknowledged after a failure", "had failed before rows up to 9", 0, func(t *testing.T, l *ledger) error {
			inc := start(t, l, 1, 1, 0, 10, 5)
			if err := l.fail(inc, 7); err != nil {
				t.Fatal(err)
			}
			if err := l.acknowledge(inc, 7); err != nil {
				t.Fatal(err) // a put before it, whose outcome is looked at later
			}
			return l.acknowledge(inc, 9)
		}},
		{"failed after it was acknowledged", "a put of the rows from 4 on failed", 0, func(t *testing.T, l *ledger) error {
			return l.fail(start(t, l, 1, 1, 0, 10, 5), 4)
		}},
		{"acknowledged after a seal", "row 10 of incarnation 1", 0, func(t *testing.T, l *ledger) error {
			inc := start(t, l, 1, 1, 0, 10, 5)
			l.seal()
			if err := l.acknowledge(inc, 10); err != nil {
				t.Fatal(err) // put before it
			}
			l.issue(inc, 11)
			return l.acknowledge(inc, 11)
		}},
		{"opened while it is sealed", "row 0 of incarnation 1", 0, func(t *testing.T, l *ledger) error {
			l.seal()
			inc, err := l.open(1, 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			l.unseal()
			l.issue(inc, 1)
			return l.acknowledge(inc, 1)
		}},
		{"refused what was shown", "the writer says that it took 4 rows", 0, func(t *testing.T, l *ledger) error {
			return l.accepted(start(t, l, 1, 1, 0, 10, 5), 4)
		}},
		{"found what was refused", "had issued only those up to 6", 0, func(t *testing.T, l *ledger) error {
			if err := l.accepted(start(t, l, 1, 1, 0, 10, 5), 6); err != nil {
				t.Fatal(err)
			}
			_, err := l.open(2, 2, 7)
			return err
		}},
		{"closed with rows not acknowledged", "Close returned nil", 0, func(t *testing.T, l *ledger) error {
			return l.closed(start(t, l, 1, 1, 0, 10, 5))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var l ledger
			err := tc.do(t, &l)
			v, ok := asViolation(err)
			if !ok || !strings.Contains(err.Error(), tc.want) || v.Lost != tc.lost {
				t.Errorf("got %v, want a violation with %q, %d lost", err, tc.want, tc.lost)
			}
		})
	}
}
