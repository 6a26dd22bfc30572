package filtertext

import (
	"errors"
	"fmt"
	"slices"

	"github.com/expr-lang/expr/ast"

	"github.com/memwal/memwal-go/internal/filter"
	"github.com/memwal/memwal-go/memwal"
)

// filter translates a condition.
func (p *translator) filter(n ast.Node) (memwal.Filter, error) {
	switch n := n.(type) {
	case *ast.BoolNode:
		if n.Value {
			return memwal.And(), nil
		}
		return memwal.Or(), nil
	case *ast.UnaryNode:
		if n.Operator == "-" {
			break
		}
		f, err := p.filter(n.Node)
		return memwal.Not(f), err
	case *ast.BinaryNode:
		return p.binary(n)
	case *ast.CallNode:
		return p.call(n)
	}
	if name, ok := p.column(n); ok {
		return p.flag(n, name)
	}
	return memwal.Filter{}, p.failf(n.Location().From, "%s is no condition: compare a column with a value, as in n >= 5", p.describe(n))
}

func (p *translator) binary(n *ast.BinaryNode) (memwal.Filter, error) {
	switch n.Operator {
	case "and", "&&":
		return p.all(memwal.And, n, "and", "&&")
	case "or", "||":
		return p.all(memwal.Or, n, "or", "||")
	case "in":
		return p.in(n)
	case "-", "..":
		return memwal.Filter{}, p.failf(n.Location().From, "%s is not supported here: there is no arithmetic, and a range stands to the right of in, as in n in 1 .. 5", n.Operator)
	}
	return p.compare(n)
}

// all joins the conditions of a chain of one operator, which the parser gives as a tree
// that is as deep as the chain is long.
func (p *translator) all(join func(...memwal.Filter) memwal.Filter, n *ast.BinaryNode, words ...string) (memwal.Filter, error) {
	var parts []ast.Node
	var left ast.Node = n
	for {
		b, ok := left.(*ast.BinaryNode)
		if !ok || !slices.Contains(words, b.Operator) {
			break
		}
		parts = append(parts, b.Right)
		left = b.Left
	}
	parts = append(parts, left)
	filters := make([]memwal.Filter, 0, len(parts))
	for _, part := range slices.Backward(parts) {
		f, err := p.filter(part)
		if err != nil {
			return memwal.Filter{}, err
		}
		filters = append(filters, f)
	}
	return join(filters...), nil
}

// comparison has, for each operator between a column and a value, the constructor, and the
// operator that says the same with the sides exchanged, if there is one.
type comparison struct {
	op        filter.Op
	make      func(string, any) memwal.Filter
	exchanged string
}

func comparisonOf(operator string) (comparison, bool) {
	switch operator {
	case "==":
		return comparison{filter.OpEq, memwal.Eq, "=="}, true
	case "!=":
		return comparison{filter.OpNe, memwal.Ne, "!="}, true
	case "<":
		return comparison{filter.OpLt, memwal.Lt, ">"}, true
	case "<=":
		return comparison{filter.OpLe, memwal.Le, ">="}, true
	case ">":
		return comparison{filter.OpGt, memwal.Gt, "<"}, true
	case ">=":
		return comparison{filter.OpGe, memwal.Ge, "<="}, true
	case "startsWith":
		return comparison{filter.OpPrefix, memwal.Prefix, ""}, true
	}
	return comparison{}, false
}

func (p *translator) compare(n *ast.BinaryNode) (memwal.Filter, error) {
	c, ok := comparisonOf(n.Operator)
	if !ok {
		return memwal.Filter{}, p.failf(n.Location().From, "%s is not known here", n.Operator)
	}
	left, right := n.Left, n.Right
	if _, ok := p.column(left); !ok && c.exchanged != "" {
		if _, ok := p.column(right); ok {
			left, right = right, left
			c, _ = comparisonOf(c.exchanged)
		}
	}
	name, err := p.columnOf(left)
	if err != nil {
		return memwal.Filter{}, err
	}
	v, err := p.literal(name, right, c.op)
	if err != nil {
		return memwal.Filter{}, err
	}
	return p.fits(c.make(name, v), left, right)
}

func (p *translator) in(n *ast.BinaryNode) (memwal.Filter, error) {
	name, err := p.columnOf(n.Left)
	if err != nil {
		return memwal.Filter{}, err
	}
	if _, err := p.fits(memwal.In(name), n.Left, n.Right); err != nil {
		return memwal.Filter{}, err
	}
	switch r := n.Right.(type) {
	case *ast.ArrayNode:
		if len(r.Nodes) > MaxList {
			return memwal.Filter{}, p.failf(r.Location().From, "a list of %d values, at most %d are taken: build the filter with memwal.In", len(r.Nodes), MaxList)
		}
		values := make([]any, len(r.Nodes))
		for i, e := range r.Nodes {
			if values[i], err = p.member(name, filter.OpIn, n.Left, e); err != nil {
				return memwal.Filter{}, err
			}
		}
		return memwal.In(name, values...), nil
	case *ast.BinaryNode:
		if r.Operator != ".." {
			break
		}
		low, err := p.member(name, filter.OpBetween, n.Left, r.Left)
		if err != nil {
			return memwal.Filter{}, err
		}
		high, err := p.member(name, filter.OpBetween, n.Left, r.Right)
		return memwal.Between(name, low, high), err
	}
	return memwal.Filter{}, p.failf(n.Right.Location().From, "in takes a list or a range: write %s in [1, 2] or %s in 1 .. 2", written(name), written(name))
}

// member is a literal that was checked, so that an error can be placed at it.
func (p *translator) member(name string, op filter.Op, column, n ast.Node) (any, error) {
	v, err := p.literal(name, n, op)
	if err == nil {
		_, err = p.fits(memwal.Eq(name, v), column, n)
	}
	return v, err
}

func (p *translator) call(n *ast.CallNode) (memwal.Filter, error) {
	if f, ok := n.Callee.(*ast.IdentifierNode); !ok || f.Value != "isNull" || len(n.Arguments) != 1 {
		return memwal.Filter{}, p.failf(n.Location().From, `%s is no condition: isNull takes one column, and hex("00ff") is a value`, p.describe(n))
	}
	name, err := p.columnOf(n.Arguments[0])
	if err != nil {
		return memwal.Filter{}, err
	}
	return p.fits(memwal.IsNull(name), n.Arguments[0], n)
}

// flag is a bool column that stands for itself.
func (p *translator) flag(n ast.Node, name string) (memwal.Filter, error) {
	f, err := p.fits(memwal.Eq(name, true), n, n)
	if e, ok := errors.AsType[*memwal.FilterError](err); ok && e.Reason != memwal.FilterUnknownColumn {
		return f, p.fail(n.Location().From, &hint{e, fmt.Sprintf("column %q is of type %s, and only bool columns stand for themselves: compare it, as in %s == …; not applies to what is right behind it, so write not (%s == …)", name, e.Type, written(name), written(name))})
	}
	return f, err
}

// written is a column's name as it is written in a text.
func written(name string) string {
	s := memwal.IsNull(name).String()
	return s[len("isNull(") : len(s)-1]
}

// hint is an error with other words.
type hint struct {
	err  error
	text string
}

func (h *hint) Error() string { return h.text }
func (h *hint) Unwrap() error { return h.err }

// fits checks a condition, and places what is wrong with it at the column or at the value.
func (p *translator) fits(f memwal.Filter, column, value ast.Node) (memwal.Filter, error) {
	err := f.Check(p.schema)
	if err == nil {
		return f, nil
	}
	at := value
	if e, ok := errors.AsType[*memwal.FilterError](err); ok && (e.Reason == memwal.FilterUnknownColumn || e.Reason == memwal.FilterNotComparable) {
		at = column
	}
	return memwal.Filter{}, p.fail(at.Location().From, err)
}

// column is the name of a column, if a node is one. There need not be a column of that
// name.
func (p *translator) column(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		return n.Value, n.Value != "null"
	case *ast.StringNode:
		return n.Value, p.text[p.at[n.Location().From]] == '`'
	}
	return "", false
}

func (p *translator) columnOf(n ast.Node) (string, error) {
	if name, ok := p.column(n); ok {
		return name, nil
	}
	at := n.Location().From
	if u, ok := n.(*ast.UnaryNode); ok && u.Operator != "-" {
		return "", p.failf(at, "not applies to what is right behind it: put the condition in parentheses, as in not (n == 5)")
	}
	if b, ok := n.(*ast.BinaryNode); ok && b.Operator == "-" {
		return "", p.failf(at, "- is not supported here: there is no arithmetic")
	}
	return "", p.failf(at, "%s is no column: conditions compare a column with a value, as in n >= 5, and a name that is no plain word is written in backticks", p.describe(n))
}

// describe names a node in messages.
func (p *translator) describe(n ast.Node) string {
	switch n := n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BytesNode:
		return "the value " + p.source(n.Location())
	case *ast.StringNode:
		return "the text " + p.source(n.Location())
	case *ast.IdentifierNode:
		return n.Value
	case *ast.BoolNode:
		return fmt.Sprint(n.Value)
	case *ast.NilNode:
		return "nil"
	case *ast.ArrayNode:
		return "a list"
	case *ast.MemberNode, *ast.SliceNode:
		return "a part of a value"
	case *ast.UnaryNode:
		return "what " + n.Operator + " is before"
	case *ast.BinaryNode:
		return "what " + n.Operator + " gives"
	case *ast.CallNode:
		if f, ok := n.Callee.(*ast.IdentifierNode); ok {
			return f.Value + "(…)"
		}
	}
	return "this"
}
