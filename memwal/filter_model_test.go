package memwal

import (
	"math/rand/v2"
	"strings"
)

// modelFilter is a random filter and what it says of a row: 0, 1, 2 for false,
// unknown, true.
type modelFilter struct {
	f  Filter
	of func(vals []any) int
}

// filter makes a random filter. Half of them say something of a key or an index
// alone, so that these get to serve some.
func (m *model) filter(r *rand.Rand, depth int) modelFilter {
	op := r.IntN(10)
	switch {
	case depth == 3 && op < 3 && len(m.key) > 0:
		return m.pinned(r)
	case depth == 3 && op < 6 && len(m.indexes) > 0:
		return m.indexed(r)
	case depth > 0 && op < 5:
		return m.combined(r, depth)
	case depth > 0 && op < 6:
		a := m.filter(r, depth-1)
		return modelFilter{Not(a.f), func(vals []any) int { return 2 - a.of(vals) }}
	}
	return m.condition(r, r.IntN(m.schema.NumFields()))
}

func (m *model) combined(r *rand.Rand, depth int) modelFilter {
	var fs []Filter
	var of []func([]any) int
	for range r.IntN(4) {
		a := m.filter(r, depth-1)
		fs, of = append(fs, a.f), append(of, a.of)
	}
	if r.IntN(2) == 0 {
		return modelFilter{And(fs...), func(vals []any) int {
			t := 2
			for _, of := range of {
				t = min(t, of(vals))
			}
			return t
		}}
	}
	return modelFilter{Or(fs...), func(vals []any) int {
		t := 0
		for _, of := range of {
			t = max(t, of(vals))
		}
		return t
	}}
}

// indexed says something of the first columns of an index.
func (m *model) indexed(r *rand.Rand) modelFilter {
	var parts []modelFilter
	for _, c := range m.indexes[r.IntN(len(m.indexes))] {
		switch r.IntN(4) {
		case 0:
			name := m.schema.Field(c).Name
			parts = append(parts, modelFilter{IsNull(name), func(vals []any) int { return 2 * boolInt(vals[c] == nil) }})
		case 1:
			a, b := m.value(r, c), m.value(r, c)
			name := m.schema.Field(c).Name
			parts = append(parts, modelFilter{Or(Eq(name, a), Eq(name, b)), m.among(c, []any{a, b})})
		case 2:
			a := m.value(r, c)
			parts = append(parts, modelFilter{Eq(m.schema.Field(c).Name, a), m.among(c, []any{a})})
		default:
			parts = append(parts, m.condition(r, c))
		}
	}
	if r.IntN(3) == 0 {
		parts = append(parts, m.filter(r, 2))
	}
	return allOf(parts)
}

func allOf(parts []modelFilter) modelFilter {
	var fs []Filter
	for _, p := range parts {
		fs = append(fs, p.f)
	}
	return modelFilter{And(fs...), func(vals []any) int {
		t := 2
		for _, p := range parts {
			t = min(t, p.of(vals))
		}
		return t
	}}
}

// pinned pins the primary key, and asks for something more at times.
func (m *model) pinned(r *rand.Rand) modelFilter {
	var parts []modelFilter
	for _, c := range m.key {
		var vals []any
		for range 1 + r.IntN(3) {
			vals = append(vals, m.value(r, c))
		}
		parts = append(parts, modelFilter{In(m.schema.Field(c).Name, vals...), m.among(c, vals)})
	}
	if r.IntN(2) == 0 {
		parts = append(parts, m.filter(r, 2))
	}
	return allOf(parts)
}

func (m *model) among(c int, list []any) func(vals []any) int {
	return func(vals []any) int {
		t := 0
		for _, v := range list {
			t = max(t, compared(vals[c], v, func(d int) bool { return d == 0 }))
		}
		return t
	}
}

// compared is a comparison in three values.
func compared(a, b any, holds func(d int) bool) int {
	switch {
	case a == nil || b == nil:
		return 1
	case holds(compareValues(a, b)):
		return 2
	}
	return 0
}

func (m *model) condition(r *rand.Rand, c int) modelFilter {
	name, v := m.schema.Field(c).Name, m.value(r, c)
	one := func(make func(string, any) Filter, holds func(d int) bool) modelFilter {
		return modelFilter{make(name, v), func(vals []any) int { return compared(vals[c], v, holds) }}
	}
	switch r.IntN(10) {
	case 0:
		return one(Ne, func(d int) bool { return d != 0 })
	case 1:
		return one(Lt, func(d int) bool { return d < 0 })
	case 2:
		return one(Le, func(d int) bool { return d <= 0 })
	case 3:
		return one(Gt, func(d int) bool { return d > 0 })
	case 4:
		return one(Ge, func(d int) bool { return d >= 0 })
	case 5:
		var list []any
		for range r.IntN(4) {
			list = append(list, m.value(r, c))
		}
		return modelFilter{In(name, list...), m.among(c, list)}
	case 6:
		high := m.value(r, c)
		return modelFilter{Between(name, v, high), func(vals []any) int {
			return min(compared(vals[c], v, func(d int) bool { return d >= 0 }), compared(vals[c], high, func(d int) bool { return d <= 0 }))
		}}
	case 7:
		return modelFilter{IsNull(name), func(vals []any) int { return 2 * boolInt(vals[c] == nil) }}
	case 8:
		if text, ok := v.(string); ok {
			text = text[:r.IntN(len(text)+1)]
			return modelFilter{Prefix(name, text), func(vals []any) int {
				if vals[c] == nil {
					return 1
				}
				return 2 * boolInt(strings.HasPrefix(vals[c].(string), text))
			}}
		}
	}
	return one(Eq, func(d int) bool { return d == 0 })
}

// matching are those of the ordinals whose rows a filter is true for.
func (m *model) matching(history []modelRow, ordinals []int, f modelFilter) []int {
	if f.of == nil {
		return ordinals
	}
	var out []int
	for _, i := range ordinals {
		if f.of(history[i].vals) == 2 {
			out = append(out, i)
		}
	}
	return out
}
