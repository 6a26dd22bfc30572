package faultstore_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/memwal/memwal-go/objstore"
	"github.com/memwal/memwal-go/objstore/faultstore"
)

func TestParseScript(t *testing.T) {
	got, err := faultstore.ParseScript(`
# a comment, and an empty line

op=put-if-absent key=*/wal/* skip=2 after=500  # lost
	op=get,list  chance=0.25   count=always before=503; op=list shuffle drop=0.5 truncate=3;
key="a b;\"c\"/#*" count=4 delay=1m30s park duplicate ignore-condition park-reply detach late=20ms ;; before=404 # end ; before=409
before=429`)
	if err != nil {
		t.Fatal(err)
	}
	want := []faultstore.Rule{
		{Ops: []objstore.Op{objstore.OpPutIfAbsent}, Key: "*/wal/*", Skip: 2, After: faultstore.Status(500)},
		{Ops: []objstore.Op{objstore.OpGet, objstore.OpList}, Chance: 0.25, Count: -1, Before: faultstore.Status(503)},
		{Ops: []objstore.Op{objstore.OpList}, Shuffle: true, Drop: 0.5, Truncate: 3},
		{Key: `a b;"c"/#*`, Count: 4, Delay: 90 * time.Second, Park: true, Duplicate: true, IgnoreCondition: true, ParkReply: true, Detach: true, Late: 20 * time.Millisecond},
		{Before: faultstore.Status(404)},
		{Before: faultstore.Status(429)},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
	for i, line := range []string{
		"op=put-if-absent key=*/wal/* skip=2 after=500",
		"op=get,list count=always chance=0.25 before=503",
		"op=list truncate=3 drop=0.5 shuffle",
		`key="a b;\"c\"/#*" count=4 late=20ms delay=1m30s park ignore-condition duplicate park-reply detach`,
		"before=404", "before=429",
	} {
		if s := got[i].String(); s != line {
			t.Errorf("rule %d is %s, want %s", i, s, line)
		}
	}
	for _, empty := range []string{"", "\n\n", " ; ;# x", "#"} {
		if rules, err := faultstore.ParseScript(empty); len(rules) != 0 || err != nil {
			t.Errorf("%q: %v, %v", empty, rules, err)
		}
	}
}

// TestParseScriptSaysWhatIsAllowed: every error has the line, what is wrong, and
// what may be there.
func TestParseScriptSaysWhatIsAllowed(t *testing.T) {
	for text, want := range map[string][]string{
		"\n\nbfore=503":                 {"line 3", `"bfore"`, "op, key, skip, count, chance", "before", "shuffle", "detach"},
		"op=get":                        {"line 1", "does nothing", "before, "},
		"op=read before=503":            {"op=read", "get,get-range,head,list,put-if-absent,put,delete"},
		"op=get,get before=503":         {"get is there twice"},
		"op= before=503":                {"no kind"},
		"before=503 before=404":         {"before is there twice"},
		"before=200":                    {"before=200", "400 to 599"},
		"after=x":                       {"after=x", "400 to 599"},
		"before":                        {"before needs a value"},
		"shuffle=yes":                   {"shuffle has no value", "=yes"},
		"shuffle op=get":                {"shuffle does nothing to get", "for list"},
		"op=list,get duplicate":         {"duplicate does nothing to list,get", "put-if-absent,put,delete"},
		"op=put ignore-condition":       {"put-if-absent"},
		"op=head truncate=1":            {"truncate does nothing to head"},
		"truncate=0":                    {"from 1 on"},
		"skip=-1 park":                  {"skip=-1", "from 0 on"},
		"count=0 park":                  {"count=0", "from 1 on, or always"},
		"chance=0 park":                 {"chance=0", "above 0, up to 1"},
		"chance=1.5 park":               {"above 0"},
		"chance=NaN park":               {"above 0"},
		"drop=2":                        {"drop=2", "above 0"},
		"delay=5":                       {"delay=5", "50ms"},
		"delay=-5s":                     {"above 0"},
		"late=0s":                       {"late=0s"},
		"key=[ park":                    {"key=[", "path.Match"},
		"key= park":                     {"key", "leave it out"},
		`key="a park`:                   {"key", "quoted"},
		`key="a"b park`:                 {"key", "quoted"},
		`key="\xzz" park`:               {"key", "quoted"},
		"park; before=1\npark\nx\npark": {"line 1", "before=1", "line 3", `"x"`},
	} {
		rules, err := faultstore.ParseScript(text)
		if err == nil || rules != nil {
			t.Errorf("%q gives %v, %v; want an error", text, rules, err)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: the error does not say %q: %v", text, part, err)
			}
		}
	}
}

// TestUnsayableRules: what a script cannot say is shown, and not read back as less.
func TestUnsayableRules(t *testing.T) {
	for want, r := range map[string]faultstore.Rule{
		"park match=? hold=? on-request=? on-applied=?": {Park: true, Hold: make(chan struct{}), Match: func(faultstore.Request) bool { return true },
			OnRequest: func(faultstore.Request) {}, OnApplied: func(faultstore.Request) {}},
		`before="some error"`:   {Before: errors.New("some error")},
		"before=x after=503":    {Before: errors.New("x"), After: faultstore.Status(503)},
		"op=chmod before=503":   {Ops: []objstore.Op{"chmod"}, Before: faultstore.Status(503)},
		"chance=1.5 before=503": {Chance: 1.5, Before: faultstore.Status(503)},
	} {
		if got := r.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if rules, err := faultstore.ParseScript(want); err == nil {
			t.Errorf("%s was read as %v", want, rules)
		}
	}
	if s := (faultstore.Rule{}).String(); s != "" {
		t.Errorf("the zero rule is %q", s)
	}
}

func FuzzParseScript(f *testing.F) {
	for _, r := range faultstore.Chaos(0.01) {
		f.Add(r.String())
	}
	f.Add("op=put,get key=\"a \\x00\" skip=3 count=2 chance=1e-9 late=1ns delay=3h park; truncate=9 drop=1 # x\nshuffle")
	f.Add("key=\"\\\"\" park-reply\r\n;;detach ignore-condition duplicate")
	f.Add("=;==\"")
	f.Add("key=\u0085 park\u00a0park-reply")
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := faultstore.ParseScript(text)
		if err != nil {
			if rules != nil || !strings.Contains(err.Error(), "line ") {
				t.Errorf("%v, %v", rules, err)
			}
			return
		}
		lines := make([]string, len(rules))
		for i, r := range rules {
			lines[i] = r.String()
		}
		for _, sep := range []string{"\n", ";"} {
			again, err := faultstore.ParseScript(strings.Join(lines, sep))
			if err != nil || !reflect.DeepEqual(rules, again) {
				t.Errorf("%q was read as\n%v\nand that as\n%v, %v", text, rules, again, err)
			}
		}
	})
}
