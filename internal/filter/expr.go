package filter

import (
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow/float16"
)

// Op is what a node of an Expr does.
type Op uint8

const (
	OpAnd Op = iota
	OpOr
	OpNot
	OpEq
	OpNe
	OpLt
	OpLe
	OpGt
	OpGe
	OpIn
	OpBetween
	OpPrefix
	OpIsNull
)

// String is the operator as it stands in the text of a filter.
func (o Op) String() string {
	return [...]string{"and", "or", "not", "==", "!=", "<", "<=", ">", ">=", "in", "in ..", "startsWith", "isNull"}[o]
}

// What Bind takes at most. Filters written by hand have a depth of ten and some dozens
// of parts; those that programs write use In for long lists of alternatives.
const (
	// MaxDepth is how deep a filter may be nested: whatever walks it uses the stack.
	MaxDepth = 1000
	// MaxParts is how many nodes it may have, those that occur twice counted twice.
	MaxParts = 1 << 16
)

// Expr is a predicate without a schema. Immutable.
type Expr struct {
	op     Op
	column string
	values []any   // what the column is compared with; nil is null
	args   []*Expr // of and, or, not
	depth  int
	parts  int // at most MaxParts + 1
}

// Compare compares a column with a value. op is one of OpEq to OpGe.
func Compare(op Op, column string, value any) *Expr { return leafExpr(op, column, value) }

// In is true where the column equals one of the values.
func In(column string, values ...any) *Expr { return leafExpr(OpIn, column, values...) }

// Between is true where the column is low, high, or between them.
func Between(column string, low, high any) *Expr { return leafExpr(OpBetween, column, low, high) }

// Prefix is true where a text or binary column begins with a string or []byte.
func Prefix(column string, prefix any) *Expr { return leafExpr(OpPrefix, column, prefix) }

// IsNull is true where the column is null.
func IsNull(column string) *Expr { return leafExpr(OpIsNull, column) }

// And is true where all of its arguments are; without any, everywhere.
func And(args ...*Expr) *Expr { return node(OpAnd, args) }

// Or is true where one of its arguments is; without any, nowhere.
func Or(args ...*Expr) *Expr { return node(OpOr, args) }

// Not is true where its argument is false.
func Not(arg *Expr) *Expr { return node(OpNot, []*Expr{arg}) }

// leafExpr keeps copies of byte slices: the caller may go on using its own.
func leafExpr(op Op, column string, values ...any) *Expr {
	e := &Expr{op: op, column: column, values: make([]any, len(values)), parts: 1}
	for i, v := range values {
		if rv := reflect.ValueOf(v); rv.Kind() == reflect.Slice && rv.Type().Elem().Kind() == reflect.Uint8 {
			own := reflect.MakeSlice(rv.Type(), rv.Len(), rv.Len())
			reflect.Copy(own, rv)
			v = own.Interface()
		}
		e.values[i] = v
	}
	return e
}

func node(op Op, args []*Expr) *Expr {
	e := &Expr{op: op, args: append([]*Expr(nil), args...), parts: 1}
	for _, a := range args {
		e.depth = max(e.depth, a.depth+1)
		e.parts = min(e.parts+a.parts, MaxParts+1)
	}
	return e
}

func (e *Expr) tooLarge() bool { return e.depth > MaxDepth || e.parts > MaxParts }

// String is the filter in the syntax of package filtertext, which takes it back as long
// as nothing was cut: lists end after some values, and values after some bytes. Values
// are written as they were given; those that name a unit or a scale, such as
// arrow.Timestamp, are written as bare numbers and are not taken back.
func (e *Expr) String() string {
	if e.tooLarge() {
		return "(too large)"
	}
	var b strings.Builder
	e.write(&b)
	return b.String()
}

func (e *Expr) write(b *strings.Builder) {
	switch e.op {
	case OpAnd, OpOr:
		if len(e.args) == 0 {
			b.WriteString(strconv.FormatBool(e.op == OpAnd))
			return
		}
		b.WriteByte('(')
		for i, a := range e.args {
			if i > 0 {
				b.WriteString(" " + e.op.String() + " ")
			}
			a.write(b)
		}
		b.WriteByte(')')
	case OpNot:
		e.writeNot(b)
	case OpIsNull:
		b.WriteString("isNull(" + columnText(e.column) + ")")
	case OpBetween:
		b.WriteString(columnText(e.column) + " in " + valueText(e.values[0]) + " .. " + valueText(e.values[1]))
	case OpIn:
		b.WriteString(columnText(e.column) + " in [")
		for i, v := range e.values {
			if i > 0 {
				b.WriteString(", ")
			}
			if i == maxListText {
				fmt.Fprintf(b, "… %d values", len(e.values))
				break
			}
			b.WriteString(valueText(v))
		}
		b.WriteByte(']')
	default:
		b.WriteString(columnText(e.column) + " " + e.op.String() + " " + valueText(e.values[0]))
	}
}

// writeNot puts conditions in parentheses, since "not" binds more tightly than they do.
func (e *Expr) writeNot(b *strings.Builder) {
	a := e.args[0]
	b.WriteString("not ")
	switch a.op {
	case OpAnd, OpOr, OpNot, OpIsNull:
		a.write(b)
	default:
		b.WriteByte('(')
		a.write(b)
		b.WriteByte(')')
	}
}

const (
	maxListText  = 8
	maxValueText = 64
)

// reserved tells whether a word is one that the syntax has for itself.
func reserved(word string) bool {
	switch word {
	case "and", "or", "not", "in", "startsWith", "endsWith", "contains", "matches", "let", "if", "else", "true", "false", "nil", "null":
		return true
	}
	return false
}

func columnText(name string) string {
	plain := name != "" && !reserved(name)
	for i, c := range name {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			plain = false
		}
	}
	if plain {
		return name
	}
	return "`" + strings.ReplaceAll(name, "`", "``") + "`"
}

func valueText(v any) string {
	var s string
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		if !utf8.ValidString(v) {
			return valueText([]byte(v))
		}
		if len(v) > maxValueText {
			return strconv.Quote(strings.ToValidUTF8(v[:maxValueText], "")) + "…"
		}
		return strconv.Quote(v)
	case []byte:
		if len(v) > maxValueText {
			return fmt.Sprintf("hex(\"%x…\")", v[:maxValueText])
		}
		return fmt.Sprintf("hex(\"%x\")", v)
	case float64:
		return floatText(v, 64)
	case float32:
		return floatText(float64(v), 32)
	case float16.Num:
		return floatText(float64(v.Float32()), 32)
	case interface{ BigInt() *big.Int }: // decimals, without their point
		s = v.BigInt().String()
	case time.Time:
		return strconv.Quote(v.Format(time.RFC3339Nano))
	case time.Duration:
		return strconv.Quote(v.String())
	default:
		s = fmt.Sprint(v)
	}
	if len(s) > maxValueText {
		s = strings.ToValidUTF8(s[:maxValueText], "") + "…"
	}
	return s
}

func floatText(v float64, bits int) string {
	switch {
	case v != v:
		return `"NaN"`
	case math.IsInf(v, 0):
		return strconv.Quote(strconv.FormatFloat(v, 'g', -1, bits))
	}
	s := strconv.FormatFloat(v, 'g', -1, bits)
	if !strings.ContainsAny(s, ".e") {
		s += ".0" // so that it is not read as an integer
	}
	return s
}
