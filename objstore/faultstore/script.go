package faultstore

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/memwal/memwal-go/objstore"
)

// ParseScript reads rules from text, one a line (or between semicolons), for
// command lines and reports of bugs. A rule is made of words, with spaces in between; what
// follows a # at the start of a word, up to the end of the line, is a comment:
//
//	# the third put into the log of a shard is applied, but its reply is lost
//	op=put-if-absent key=_mem_wal/*/wal/* skip=2 after=500
//	op=get,list chance=0.01 count=always before=503
//	op=list count=always shuffle
//
// These words select requests, as the fields of [Rule] do:
//
//	op=KIND,…        kinds of requests: get, get-range, head, list,
//	                 put-if-absent, put, delete; default all
//	key=PATTERN      path.Match over the whole key; default any
//	skip=N           matches that are left alone; default 0
//	count=N|always   how many times the rule acts then; default 1
//	chance=P         above 0, up to 1: with which a match counts; default 1
//
// and these say what happens; a rule has at least one:
//
//	late=DURATION    answered at once, sent so much later
//	delay=DURATION   waits (10ms, 2s, 1m30s)
//	park             waits for Release
//	before=STATUS    fails, not applied (400 to 599, see Status)
//	ignore-condition a put-if-absent replaces
//	duplicate        applied twice
//	park-reply       the reply waits for Release
//	after=STATUS     applied, and fails
//	truncate=N       bytes off a get, or objects off a listing
//	drop=P           a listing leaves out each object with that chance
//	shuffle          a listing in another order, some objects twice
//	detach           outlives its caller
//
// A value with spaces, semicolons or quotes is quoted as in Go. What a word
// that selects does not say is as in the zero Rule. The error names every line
// that is wrong, and what may stand there.
func ParseScript(text string) ([]Rule, error) {
	var rules []Rule
	var errs []error
	line := 0
	for text := range strings.Lines(text) {
		line++
		for rest := text; ; {
			words, more, err := splitRule(rest)
			var rule Rule
			if err == nil && len(words) > 0 {
				rule, err = parseRule(words)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("faultstore: line %d of the script: %w", line, err))
				break
			}
			if len(words) > 0 {
				rules = append(rules, rule)
			}
			if more == "" {
				break
			}
			rest = more
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return rules, nil
}

// String returns the rule as a line of a script. [ParseScript] makes the same
// rule of it, unless the rule has what a script cannot say: hooks, Match, Hold,
// and errors that are no [Status]. Those are shown with a question mark or
// their text, and refused by ParseScript.
func (r Rule) String() string {
	var words []string
	for _, w := range vocabulary {
		if value, set := w.get(&r); set && w.flag {
			words = append(words, w.name)
		} else if set {
			words = append(words, w.name+"="+quoted(value))
		}
	}
	for _, u := range []struct {
		name string
		set  bool
	}{
		{"match", r.Match != nil}, {"hold", r.Hold != nil}, {"on-request", r.OnRequest != nil}, {"on-applied", r.OnApplied != nil},
	} {
		if u.set {
			words = append(words, u.name+"=?")
		}
	}
	return strings.Join(words, " ")
}

// word is one that a rule may be made of.
type word struct {
	name string
	flag bool // it has no value

	// acts are the kinds of requests to which something happens by it; nil for
	// words that select.
	acts []objstore.Op

	get func(*Rule) (value string, set bool)
	set func(r *Rule, value string) error
}

var (
	allOps   = []objstore.Op{objstore.OpGet, objstore.OpGetRange, objstore.OpHead, objstore.OpList, objstore.OpPutIfAbsent, objstore.OpPut, objstore.OpDelete}
	writeOps = []objstore.Op{objstore.OpPutIfAbsent, objstore.OpPut, objstore.OpDelete}
	listOps  = []objstore.Op{objstore.OpList}
)

// vocabulary has the words in the order in which String writes them: those
// that select, then the steps of a request.
var vocabulary = []word{
	{name: "op", get: getOps, set: setOps},
	{name: "key", get: func(r *Rule) (string, bool) { return r.Key, r.Key != "" }, set: setKey},
	number("skip", nil, 0, func(r *Rule) *int { return &r.Skip }),
	{name: "count", get: getCount, set: setCount},
	probability("chance", nil, func(r *Rule) *float64 { return &r.Chance }),
	duration("late", writeOps, func(r *Rule) *time.Duration { return &r.Late }),
	duration("delay", allOps, func(r *Rule) *time.Duration { return &r.Delay }),
	flag("park", allOps, func(r *Rule) *bool { return &r.Park }),
	status("before", func(r *Rule) *error { return &r.Before }),
	flag("ignore-condition", []objstore.Op{objstore.OpPutIfAbsent}, func(r *Rule) *bool { return &r.IgnoreCondition }),
	flag("duplicate", writeOps, func(r *Rule) *bool { return &r.Duplicate }),
	flag("park-reply", allOps, func(r *Rule) *bool { return &r.ParkReply }),
	status("after", func(r *Rule) *error { return &r.After }),
	number("truncate", []objstore.Op{objstore.OpGet, objstore.OpGetRange, objstore.OpList}, 1, func(r *Rule) *int { return &r.Truncate }),
	probability("drop", listOps, func(r *Rule) *float64 { return &r.Drop }),
	flag("shuffle", listOps, func(r *Rule) *bool { return &r.Shuffle }),
	flag("detach", writeOps, func(r *Rule) *bool { return &r.Detach }),
}

func flag(name string, acts []objstore.Op, field func(*Rule) *bool) word {
	return word{name: name, flag: true, acts: acts,
		get: func(r *Rule) (string, bool) { return "", *field(r) },
		set: func(r *Rule, _ string) error { *field(r) = true; return nil },
	}
}

func number(name string, acts []objstore.Op, least int, field func(*Rule) *int) word {
	return word{name: name, acts: acts,
		get: func(r *Rule) (string, bool) { return strconv.Itoa(*field(r)), *field(r) != 0 },
		set: func(r *Rule, value string) error {
			n, err := strconv.Atoi(value)
			if err != nil || n < least {
				return fmt.Errorf("it is a number from %d on", least)
			}
			*field(r) = n
			return nil
		},
	}
}

func probability(name string, acts []objstore.Op, field func(*Rule) *float64) word {
	return word{name: name, acts: acts,
		get: func(r *Rule) (string, bool) {
			return strconv.FormatFloat(*field(r), 'g', -1, 64), *field(r) != 0
		},
		set: func(r *Rule, value string) error {
			p, err := strconv.ParseFloat(value, 64)
			if err != nil || !(p > 0 && p <= 1) {
				return errors.New("it is a probability above 0, up to 1")
			}
			*field(r) = p
			return nil
		},
	}
}

func duration(name string, acts []objstore.Op, field func(*Rule) *time.Duration) word {
	return word{name: name, acts: acts,
		get: func(r *Rule) (string, bool) { return field(r).String(), *field(r) != 0 },
		set: func(r *Rule, value string) error {
			d, err := time.ParseDuration(value)
			if err != nil || d <= 0 {
				return errors.New("it is a duration above 0, such as 50ms or 1m30s")
			}
			*field(r) = d
			return nil
		},
	}
}

func status(name string, field func(*Rule) *error) word {
	return word{name: name, acts: allOps,
		get: func(r *Rule) (string, bool) {
			err := *field(r)
			if err == nil {
				return "", false
			}
			if s, ok := err.(*statusError); ok { // a wrapped one is another error
				return strconv.Itoa(s.code), true
			}
			return err.Error(), true
		},
		set: func(r *Rule, value string) error {
			code, err := strconv.Atoi(value)
			if err != nil || code < 400 || code > 599 {
				return errors.New("it is an HTTP status from 400 to 599")
			}
			*field(r) = Status(code)
			return nil
		},
	}
}

func getOps(r *Rule) (string, bool) {
	return joinOps(r.Ops), len(r.Ops) > 0
}

func setOps(r *Rule, value string) error {
	for kind := range strings.SplitSeq(value, ",") {
		op := objstore.Op(kind)
		if !slices.Contains(allOps, op) {
			return fmt.Errorf("%q is no kind of requests; they are %s", kind, joinOps(allOps))
		}
		if slices.Contains(r.Ops, op) {
			return fmt.Errorf("%s is there twice", kind)
		}
		r.Ops = append(r.Ops, op)
	}
	return nil
}

func joinOps(ops []objstore.Op) string {
	names := make([]string, len(ops))
	for i, op := range ops {
		names[i] = string(op)
	}
	return strings.Join(names, ",")
}

func setKey(r *Rule, value string) error {
	if _, err := path.Match(value, ""); err != nil || value == "" {
		return errors.New("it is a pattern of path.Match, such as wal/*; leave it out for any key")
	}
	r.Key = value
	return nil
}

func getCount(r *Rule) (string, bool) {
	if r.Count < 0 {
		return "always", true
	}
	return strconv.Itoa(r.Count), r.Count > 0
}

func setCount(r *Rule, value string) error {
	if value == "always" {
		r.Count = -1
		return nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return errors.New("it is a number from 1 on, or always")
	}
	r.Count = n
	return nil
}

// names lists the words that select, or those that act, for errors.
func names(acting bool) string {
	var list []string
	for _, w := range vocabulary {
		if (w.acts != nil) == acting {
			list = append(list, w.name)
		}
	}
	return strings.Join(list, ", ")
}

// token is a word of a script, and its value.
type token struct {
	name, value string
	valued      bool
}

// parseRule makes a rule of its words.
func parseRule(tokens []token) (Rule, error) {
	var rule Rule
	var acting []word
	seen := make(map[string]bool)
	for _, t := range tokens {
		i := slices.IndexFunc(vocabulary, func(w word) bool { return w.name == t.name })
		if i < 0 {
			return Rule{}, fmt.Errorf("unknown word %q; a rule selects by %s, and says what happens by %s", t.name, names(false), names(true))
		}
		w := vocabulary[i]
		switch {
		case seen[w.name]:
			return Rule{}, fmt.Errorf("%s is there twice", w.name)
		case w.flag && t.valued:
			return Rule{}, fmt.Errorf("%s has no value: write it without =%s", w.name, quoted(t.value))
		case !w.flag && !t.valued:
			return Rule{}, fmt.Errorf("%s needs a value: write %s=…", w.name, w.name)
		}
		seen[w.name] = true
		if err := w.set(&rule, t.value); err != nil {
			return Rule{}, fmt.Errorf("%s=%s: %w", w.name, quoted(t.value), err)
		}
		if w.acts != nil {
			acting = append(acting, w)
		}
	}
	if len(acting) == 0 {
		return Rule{}, fmt.Errorf("the rule does nothing; add one of %s", names(true))
	}
	for _, w := range acting {
		if len(rule.Ops) > 0 && !slices.ContainsFunc(w.acts, func(op objstore.Op) bool { return slices.Contains(rule.Ops, op) }) {
			return Rule{}, fmt.Errorf("%s does nothing to %s; it is for %s", w.name, joinOps(rule.Ops), joinOps(w.acts))
		}
	}
	return rule, nil
}

// splitRule splits the words of the first rule of a line from what follows
// its semicolon.
func splitRule(text string) (tokens []token, rest string, err error) {
	for {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
		if text == "" || text[0] == '#' {
			return tokens, "", nil
		}
		if text[0] == ';' {
			return tokens, text[1:], nil
		}
		var t token
		end := strings.IndexFunc(text, func(r rune) bool { return r == '=' || endsWord(r) })
		if end < 0 {
			end = len(text)
		}
		t.name, text = text[:end], text[end:]
		if text, t.valued = strings.CutPrefix(text, "="); t.valued {
			if t.value, text, err = splitValue(text); err != nil {
				return nil, "", fmt.Errorf("%s: %w", t.name, err)
			}
		}
		tokens = append(tokens, t)
	}
}

// splitValue splits a value, quoted or not, from what follows.
func splitValue(text string) (value, rest string, err error) {
	if strings.HasPrefix(text, `"`) {
		prefix, err := strconv.QuotedPrefix(text)
		if err == nil {
			value, err = strconv.Unquote(prefix)
		}
		rest = text[len(prefix):]
		if next, _ := utf8.DecodeRuneInString(rest); err != nil || rest != "" && !endsWord(next) {
			return "", "", errors.New("the quoted value does not end as in Go, by \" and a space")
		}
		return value, rest, nil
	}
	end := strings.IndexFunc(text, endsWord)
	if end < 0 {
		end = len(text)
	}
	return text[:end], text[end:], nil
}

// endsWord reports whether r cannot be part of a word that is not quoted.
func endsWord(r rune) bool { return r == ';' || unicode.IsSpace(r) }

// quoted writes a value as splitValue reads it.
func quoted(value string) string {
	plain := func(r rune) bool { return r != '"' && r != utf8.RuneError && !endsWord(r) && unicode.IsPrint(r) }
	if value != "" && strings.IndexFunc(value, func(r rune) bool { return !plain(r) }) < 0 {
		return value
	}
	return strconv.Quote(value)
}
