package filtertext

import (
	"encoding/hex"
	"errors"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/expr-lang/expr/ast"
	"github.com/google/uuid"

	"github.com/memwal/memwal-go/internal/filter"
	"github.com/memwal/memwal-go/memwal"
)

// literal makes a value of a column's type. A literal of a kind that the column cannot
// take comes back as it is, and is refused by what checks the condition.
func (p *translator) literal(column string, n ast.Node, op filter.Op) (any, error) {
	at := n.Location().From
	var t arrow.DataType = arrow.Null
	if i := p.schema.FieldIndices(column); len(i) > 0 {
		t = p.schema.Field(i[0]).Type
	}
	var v any
	var want string
	switch n := n.(type) {
	case *ast.BoolNode:
		return n.Value, nil
	case *ast.BytesNode:
		return n.Value, nil
	case *ast.IntegerNode, *ast.FloatNode:
		v, want = number(t, p.source(n.Location()))
	case *ast.UnaryNode:
		switch n.Node.(type) {
		case *ast.IntegerNode, *ast.FloatNode:
			if n.Operator == "-" {
				v, want = number(t, "-"+p.source(n.Node.Location()))
			}
		}
	case *ast.StringNode:
		if _, ok := p.column(n); !ok {
			if op == filter.OpPrefix {
				return n.Value, nil
			}
			v, want = quoted(t, n.Value)
		}
	case *ast.CallNode:
		return p.hex(n)
	case *ast.NilNode:
		return nil, p.noNull(at, column)
	case *ast.IdentifierNode:
		if n.Value == "null" {
			return nil, p.noNull(at, column)
		}
	}
	switch {
	case want != "":
		return nil, p.fail(at, &memwal.FilterError{Reason: memwal.FilterWrongType, Op: op, Column: column, Type: t, Value: p.sourceOf(n), Want: want})
	case v == nil:
		return nil, p.failf(at, "%s is no value: a column is compared with a literal, not with another column or a condition", p.describe(n))
	}
	return v, nil
}

func (p *translator) noNull(at int, column string) error {
	return p.failf(at, "a comparison with null is unknown for every row and so finds nothing, and nor does its negation: write %v or not %v", memwal.IsNull(column), memwal.IsNull(column))
}

// sourceOf is a literal as it was written, for messages.
func (p *translator) sourceOf(n ast.Node) any {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.UnaryNode:
		return n.Operator + p.source(n.Node.Location())
	}
	return p.source(n.Location())
}

func (p *translator) hex(n *ast.CallNode) (any, error) {
	at := n.Location().From
	if f, ok := n.Callee.(*ast.IdentifierNode); !ok || f.Value != "hex" || len(n.Arguments) != 1 {
		return nil, p.failf(at, `%s is no value: write bytes as hex("00ff")`, p.describe(n))
	}
	s, ok := n.Arguments[0].(*ast.StringNode)
	if !ok {
		return nil, p.failf(at, `hex takes text: write hex("00ff")`)
	}
	raw, err := hex.DecodeString(s.Value)
	if err != nil {
		return nil, p.failf(s.Location().From, `%v: hex takes an even number of hexadecimal digits, as in hex("00ff")`, err)
	}
	return raw, nil
}

// number reads a number, with its sign. want is what would have been right.
func number(t arrow.DataType, text string) (v any, want string) {
	text = strings.ReplaceAll(text, "_", "")
	id := filter.Base(t).ID()
	n, whole := integer(text)
	switch {
	case arrow.IsDecimal(id):
		switch {
		case !whole:
			return text, "" // as text, which is exact
		case n.IsInt64():
			return n.Int64(), ""
		}
		return n.String(), ""
	case !whole && arrow.IsFloating(id):
		return float(id, text)
	case !whole:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, "a shorter number"
		}
		return f, ""
	case id == arrow.INTERVAL_MONTHS:
		if !n.IsInt64() || n.Int64() != int64(int32(n.Int64())) {
			return nil, "a number of months in 32 bits"
		}
		return arrow.MonthInterval(n.Int64()), ""
	case n.IsInt64():
		return n.Int64(), ""
	case n.IsUint64():
		return n.Uint64(), ""
	case arrow.IsFloating(id):
		return float(id, n.String())
	}
	return nil, "an integer of at most 64 bits"
}

// integer reads an integer in any of the notations.
func integer(text string) (*big.Int, bool) {
	digits, base := strings.TrimPrefix(text, "-"), 10
	if len(digits) > 2 && digits[0] == '0' {
		switch digits[1] {
		case 'x', 'X':
			base = 16
		case 'o', 'O':
			base = 8
		case 'b', 'B':
			base = 2
		}
	}
	if base != 10 {
		digits = digits[2:]
	}
	if len(digits) > maxDigits {
		return nil, false
	}
	n, ok := new(big.Int).SetString(digits, base)
	if ok && text[0] == '-' {
		n.Neg(n)
	}
	return n, ok
}

// maxDigits is more than any column takes, and bounds what reading them costs.
const maxDigits = 400

// float is the value of a type that is nearest to a number.
func float(id arrow.Type, text string) (v any, want string) {
	bits := 64
	if id != arrow.FLOAT64 {
		bits = 32
	}
	f, err := strconv.ParseFloat(text, bits)
	h := float16.New(float32(f))
	switch {
	case errors.Is(err, strconv.ErrRange) || id == arrow.FLOAT16 && h.IsInf():
		return nil, "a number in the range of the type"
	case err != nil:
		return nil, "a number"
	case id == arrow.FLOAT64:
		return f, ""
	case id == arrow.FLOAT32:
		return float32(f), ""
	}
	return h, ""
}

// quoted reads quoted text.
func quoted(t arrow.DataType, text string) (v any, want string) {
	if e, ok := t.(arrow.ExtensionType); ok && e.ExtensionName() == "arrow.uuid" {
		if id, err := uuid.Parse(text); err == nil {
			return id[:], ""
		}
		return nil, `a UUID such as "6ba7b810-9dad-11d1-80b4-00c04fd430c8", or hex("…")`
	}
	switch t := filter.Base(t).(type) {
	case *arrow.TimestampType:
		return timestamp(t, text)
	case *arrow.Date32Type, *arrow.Date64Type:
		return parseTime(text, `a date such as "2024-05-06"`, time.DateOnly, time.RFC3339Nano)
	case *arrow.Time32Type, *arrow.Time64Type:
		return timeOfDay(text)
	case *arrow.DurationType:
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, `a duration such as "1h30m" or "250ms"`
		}
		return d, ""
	case *arrow.Float16Type, *arrow.Float32Type, *arrow.Float64Type:
		switch text {
		case "NaN", "+Inf", "-Inf":
			f, _ := strconv.ParseFloat(text, 64)
			return f, ""
		}
		return nil, `a number, or one of "NaN", "+Inf" and "-Inf"`
	}
	return text, ""
}

// timestamp takes an offset, and does without one only where there is no question which
// instant is meant: in other zones some local times come twice and some never.
func timestamp(t *arrow.TimestampType, text string) (any, string) {
	switch t.TimeZone {
	case "", "UTC", "Z", "+00:00", "Etc/UTC":
		return parseTime(text, `a time such as "2024-05-06T07:08:09Z", "2024-05-06 07:08:09" or "2024-05-06"`,
			time.RFC3339Nano, "2006-01-02T15:04:05", time.DateTime, "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly)
	}
	return parseTime(text, `a time with an offset, such as "2024-05-06T07:08:09+02:00", since the column's time zone is not UTC`, time.RFC3339Nano)
}

func parseTime(text, want string, layouts ...string) (any, string) {
	for _, layout := range layouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at, ""
		}
	}
	return nil, want
}

func timeOfDay(text string) (any, string) {
	for _, layout := range []string{time.TimeOnly, "15:04"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.Sub(at.Truncate(24 * time.Hour)), ""
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return nil, `a time of day such as "07:08:09.5"`
	}
	return d, ""
}
