package index

import (
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/blevesearch/bleve/v2/search/query"
)

// QueryStringError is what is wrong with a query string, and where.
type QueryStringError struct {
	Query string
	// At is the first byte of Query at which no continuation makes it valid.
	At     int
	Reason string
}

func (e *QueryStringError) Error() string {
	before := e.Query[:e.At]
	if len(before) > 30 {
		before = "…" + before[at(before, len(before)-30):]
	}
	return fmt.Sprintf("query string: %s at byte %d, behind %q", e.Reason, e.At, before)
}

func parseQueryString(s string) (query.Query, error) {
	if len(s) > MaxQueryString {
		return nil, fmt.Errorf("the query string has %d bytes, at most %d are taken", len(s), MaxQueryString)
	}
	if strings.TrimSpace(s) == "" {
		return query.NewMatchNoneQuery(), nil // bleve does so for no text at all
	}
	q, err := query.NewQueryStringQuery(s).Parse()
	if err == nil {
		if at, reason := foreignSyntax(s); reason != "" {
			return nil, &QueryStringError{Query: s, At: at, Reason: reason}
		}
		return q, nil
	}
	reason, _, _ := strings.Cut(err.Error(), "\n")
	reason = strings.TrimPrefix(reason, "parse error: ")
	if strings.HasPrefix(reason, "runtime error") {
		reason = "syntax error" // bleve's parser trips over a single slash, and recovers
	}
	return nil, &QueryStringError{Query: s, At: viable(s), Reason: reason[:at(reason, min(len(reason), 100))]}
}

// foreignSyntax finds what other query languages have for operators and this one reads as
// words: the answer would be one to another question, NOT to the very opposite.
func foreignSyntax(s string) (at int, reason string) {
	for i := 0; i < len(s); {
		start := i
		switch c := s[i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '+' || c == '-':
			i++
			continue
		case c == '"' || c == '/': // up to its end
			for i++; i < len(s) && s[i] != c; i++ {
				if s[i] == '\\' {
					i++
				}
			}
			i++
			continue
		}
		for i < len(s) && !strings.ContainsRune(" \t\n\r\"", rune(s[i])) {
			if s[i] == '\\' {
				i++
			}
			i++
		}
		word := s[start:min(i, len(s))]
		switch {
		case word == "AND" || word == "&&":
			return start, word + " is no operator: write +a +b for both; in quotes it is a word"
		case word == "OR" || word == "||":
			return start, word + " is no operator: write a b for either; in quotes it is a word"
		case word == "NOT":
			return start, "NOT is no operator: write -a; in quotes it is a word"
		case word[0] == '(':
			return start, "there are no brackets: build a boolean query; in quotes a bracket is left out"
		}
	}
	return 0, ""
}

// viable is the length of the longest beginning of a wrong query string that could be
// the beginning of a right one. If it could, so could every shorter one.
func viable(s string) int {
	n := sort.Search(len(s), func(i int) bool { return !completes(s[:at(s, i+1)]) })
	return at(s, n)
}

// at moves a place in s forward to the beginning of a character.
func at(s string, i int) int {
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return min(i, len(s))
}

// completes tells whether something can follow s that makes a query string of it.
func completes(s string) bool {
	for _, end := range []string{"", "x", "1", `"`, `x"`} {
		if _, err := query.NewQueryStringQuery(s + end).Parse(); err == nil {
			return true
		}
	}
	return false
}
