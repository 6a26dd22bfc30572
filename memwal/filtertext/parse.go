package filtertext

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/parser/lexer"

	"github.com/memwal/memwal-go/memwal"
)

// What Parse takes at most. People write a line or two; tools that put lists of keys into
// a text come to some thousands, and do better with memwal.In, which has no such bounds.
const (
	// MaxText is how many bytes a text may have.
	MaxText = 1 << 19
	// MaxDepth is how deep parentheses and negations may be nested: the parser uses the
	// stack for them.
	MaxDepth = 100
	// MaxList is how many values a list may have.
	MaxList = 10_000
	// maxNodes is how many names, values and operators there may be in all.
	maxNodes = 1 << 16
)

// Error is a text that is no filter of the schema. It matches memwal.ErrInvalid.
type Error struct {
	Line, Column int // from 1; columns count characters
	Err          error
}

func (e *Error) Error() string {
	return fmt.Sprintf("filter text, line %d, column %d: %v", e.Line, e.Column, e.Err)
}

// Unwrap makes both the category and the cause visible to errors.Is.
func (e *Error) Unwrap() []error { return []error{memwal.ErrInvalid, e.Err} }

// Parse reads a filter of a table with a schema. See the package's comment for the
// syntax. What it returns fits the schema. An empty text is an error: where no filter is
// asked for, use the zero memwal.Filter.
func Parse(text string, schema *arrow.Schema) (memwal.Filter, error) {
	p := &translator{text: text, schema: schema}
	root, err := p.parse()
	if err != nil {
		return memwal.Filter{}, err
	}
	f, err := p.filter(root)
	if err != nil {
		return memwal.Filter{}, err
	}
	if err := f.Check(schema); err != nil { // its size: the parts were checked one by one
		return memwal.Filter{}, p.fail(0, err)
	}
	return f, nil
}

// translator makes a filter of a syntax tree.
type translator struct {
	text   string
	schema *arrow.Schema
	at     []int // byte offset of each rune, and of the end
}

// fail places an error at a rune.
func (p *translator) fail(at int, err error) error {
	e := &Error{Line: 1, Column: 1, Err: err}
	for i, c := range []rune(p.text) {
		if i == at {
			break
		}
		if e.Column++; c == '\n' {
			e.Line, e.Column = e.Line+1, 1
		}
	}
	return e
}

func (p *translator) failf(at int, format string, args ...any) error {
	return p.fail(at, fmt.Errorf(format, args...))
}

// source is the text of a token.
func (p *translator) source(l file.Location) string {
	return p.text[p.at[l.From]:p.at[l.To]]
}

// parse checks the tokens and has them parsed.
func (p *translator) parse() (ast.Node, error) {
	if len(p.text) > MaxText {
		return nil, p.failf(0, "the text has %d bytes, at most %d are taken: build the filter with memwal.In and the others", len(p.text), MaxText)
	}
	if !utf8.ValidString(p.text) {
		return nil, p.failf(0, `the text is not UTF-8: write bytes as hex("00ff")`)
	}
	for i := range p.text {
		p.at = append(p.at, i)
	}
	p.at = append(p.at, len(p.text))
	tokens, err := lexer.Lex(file.NewSource(p.text))
	if err != nil {
		return nil, p.syntax(err)
	}
	masked, err := p.check(tokens)
	if err != nil {
		return nil, err
	}
	tree, err := new(parser.Parser).Parse(masked, &conf.Config{MaxNodes: maxNodes})
	if err != nil {
		return nil, p.syntax(err)
	}
	return tree.Node, nil
}

// syntax is an error of the library with its place and advice.
func (p *translator) syntax(err error) error {
	at, msg := 0, err.Error()
	if e, ok := errors.AsType[*file.Error](err); ok {
		at, msg = e.From, e.Message
	}
	return p.failf(at, `%s: conditions are written like n >= 5, name in ["a", "b"] or isNull(n), and joined with and, or, not, in lower case`, msg)
}

// check refuses what is not of our syntax before the parser sees it, so that it can be
// named, and so that nothing is left on which the parser recurses, but for parentheses
// and negations, which are counted. It returns the text with each number replaced by a 0 as
// long as that: the parser would round numbers and refuse large ones, and we read them
// in the source.
func (p *translator) check(tokens []lexer.Token) (masked string, err error) {
	var out strings.Builder
	done := 0
	var nest nesting
	for i, t := range tokens {
		switch t.Kind {
		case lexer.Operator:
			err = p.checkOperator(t)
		case lexer.Bracket:
			if t.Value == "{" || t.Value == "}" {
				err = p.failf(t.From, "%q is not known here", t.Value)
			}
		case lexer.Identifier:
			if call := tokens[i+1]; call.Is(lexer.Bracket, "(") && t.Value != "isNull" && t.Value != "hex" {
				err = p.failf(t.From, `there is no function %q: the functions are isNull(column) and hex("00ff")`, t.Value)
			}
		case lexer.String, lexer.Bytes:
			if strings.Contains(p.source(t.Location), "\r") {
				err = p.failf(t.From, `a carriage return in a literal: write \r`)
			}
		case lexer.Number:
			out.WriteString(p.text[done:p.at[t.From]])
			out.WriteString("0" + strings.Repeat("_", t.To-t.From-1))
			done = p.at[t.To]
		}
		if err != nil {
			return "", err
		}
		if nest.add(t) > MaxDepth {
			return "", p.failf(t.From, "nested more than %d deep: leave out parentheses, and use in [...] for alternatives", MaxDepth)
		}
	}
	return out.String() + p.text[done:], nil
}

func (p *translator) checkOperator(t lexer.Token) error {
	switch t.Value {
	case "and", "or", "&&", "||", "not", "!", "==", "!=", "<", "<=", ">", ">=", "in", "startsWith", ",", "-", "..":
		return nil
	case "=":
		return p.failf(t.From, "= is not known here: write ==")
	case "&", "|":
		return p.failf(t.From, "%s is not known here: write and, or", t.Value)
	case "contains", "endsWith", "matches":
		return p.failf(t.From, "%s is not supported: text is compared with ==, in and startsWith, and searched by words with a full-text index. A column of that name is written in backticks", t.Value)
	case "if", "else", "let":
		return p.failf(t.From, "%s is not supported: a column of that name is written in backticks", t.Value)
	case "+", "*", "/", "%", "^", "**":
		return p.failf(t.From, "%s is not supported: there is no arithmetic, write the number that it gives", t.Value)
	case ".", "?.":
		return p.failf(t.From, "%s is not supported: fields of structs cannot be compared, and a column with a dot in its name is written in backticks", t.Value)
	}
	return p.failf(t.From, "%s is not known here", t.Value)
}

// nesting follows how deep the parser is in parentheses and negations.
type nesting struct {
	total int
	signs []int // negations and signs that are open, for each open parenthesis
	last  int   // those behind the last parenthesis
}

// add returns the depth behind a token.
func (n *nesting) add(t lexer.Token) int {
	switch {
	case t.Is(lexer.Operator, "not", "!", "-"):
		n.last++
		n.total++
	case t.Is(lexer.Bracket, "(", "["):
		n.signs = append(n.signs, n.last)
		n.last = 0
		n.total++
	case t.Is(lexer.Bracket, ")", "]") && len(n.signs) > 0:
		top := len(n.signs) - 1
		n.total -= n.last + n.signs[top] + 1
		n.last = 0
		n.signs = n.signs[:top]
	case t.Kind != lexer.Bracket:
		n.total -= n.last
		n.last = 0
	}
	return n.total
}
