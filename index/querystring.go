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
	// At is the byte of Query behind which nothing would help.
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
	q, err := query.NewQueryStringQuery(s).Parse()
	if err == nil {
		if b, ok := q.(*query.BooleanQuery); ok && b.Must == nil && b.Should == nil && b.MustNot == nil {
			return query.NewMatchNoneQuery(), nil // blanks
		}
		return q, nil
	}
	reason := strings.TrimPrefix(firstLine(err.Error()), "parse error: ")
	return nil, &QueryStringError{Query: s, At: viable(s), Reason: reason}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
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
