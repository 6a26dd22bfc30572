package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/memwal/memwal-go/index"
)

// The items of -index.
const (
	indexNone    = "none"
	indexPK      = "pk"
	indexOrdered = "ordered"
	indexText    = "text"
	indexAll     = "all"
)

// indexItem is one index that -index asks for.
type indexItem struct {
	kind     string // indexPK, indexOrdered or indexText
	column   string // "": the default of the kind
	analyzer string // of a text index; "": index.DefaultAnalyzer
}

// parseIndexes reads -index. All violations are reported.
func parseIndexes(list string) ([]indexItem, error) {
	var items []indexItem
	var errs []error
	names := strings.Split(list, ",")
	for _, name := range names {
		name = strings.TrimSpace(name)
		switch name {
		case indexNone:
			if len(names) > 1 {
				errs = append(errs, fmt.Errorf("-index is %q: none goes with no other", list))
			}
			continue
		case indexAll:
			items = append(items, indexItem{kind: indexPK}, indexItem{kind: indexOrdered})
			continue
		}
		item, err := parseIndex(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		items = append(items, item)
	}
	for i, item := range items {
		if slices.Contains(items[:i], item) {
			errs = append(errs, fmt.Errorf("-index is %q: the same index twice", list))
			break
		}
	}
	return items, errors.Join(errs...)
}

func parseIndex(name string) (indexItem, error) {
	parts := strings.Split(name, ":")
	item := indexItem{kind: parts[0]}
	most := map[string]int{indexPK: 1, indexOrdered: 2, indexText: 3}[item.kind]
	if most == 0 {
		return item, fmt.Errorf("-index has %q, must be none, pk, ordered, ordered:COLUMN, text, text:COLUMN, text:COLUMN:ANALYZER or all, or several of them separated by commas", name)
	}
	if len(parts) > most {
		return item, fmt.Errorf("-index has %q, which is one part too many: %s", name,
			map[string]string{indexPK: "the columns of the primary key are those of -key", indexOrdered: "ordered:COLUMN", indexText: "text:COLUMN:ANALYZER"}[item.kind])
	}
	if len(parts) > 1 {
		item.column = parts[1]
	}
	if len(parts) > 2 {
		item.analyzer = parts[2]
	}
	if item.analyzer != "" && !slices.Contains(index.Analyzers(), item.analyzer) {
		return item, fmt.Errorf("-index has %q: there is no analyzer %q; choose one of %s", name, item.analyzer, strings.Join(index.Analyzers(), ", "))
	}
	return item, nil
}

// hasIndex tells whether -index has one of a kind.
func (c *config) hasIndex(kind string) bool {
	return slices.ContainsFunc(c.Indexes, func(i indexItem) bool { return i.kind == kind })
}

// secondary returns the configurations of all indexes but the primary key. Every
// violation is reported, each as a mistake on the command line.
func (b *bench) secondary() ([]index.Config, error) {
	var configs []index.Config
	var errs []error
	for _, item := range b.c.Indexes {
		if item.kind == indexPK {
			continue
		}
		cfg, err := b.bind(item)
		if err == nil && slices.ContainsFunc(configs, func(c index.Config) bool { return c.IndexName() == cfg.IndexName() }) {
			err = fmt.Errorf("-index %s: two indexes that are the same", b.c.Index)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		configs = append(configs, cfg)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, &usageError{err}
	}
	return configs, nil
}

// bind resolves the column of an item, which the input must have and the index take.
func (b *bench) bind(item indexItem) (index.Config, error) {
	if item.column != "" {
		cfg := item.over(item.column)
		var text string
		switch err := b.takes(cfg); {
		case err == nil:
			return cfg, nil
		case len(b.in.Schema().FieldIndices(item.column)) == 0:
			text = fmt.Sprintf("-index: the input has no column %q", item.column)
		default:
			text = fmt.Sprintf("-index: %v", err)
		}
		if could := b.indexable(item); len(could) > 0 {
			return nil, fmt.Errorf("%s; choose one of %s", text, quoted(could))
		}
		return nil, fmt.Errorf("%s; and no other column could have the index: leave out %s", text, item.kind)
	}
	could := b.indexable(item)
	if len(could) == 0 {
		switch item.kind {
		case indexText:
			return nil, fmt.Errorf("-index %s: no column of the input is text; it has %s", b.c.Index, quoted(fieldNames(b.in.Schema())))
		default:
			return nil, fmt.Errorf("-index %s: no column of the input has an order; it has %s", b.c.Index, quoted(fieldNames(b.in.Schema())))
		}
	}
	if item.kind == indexText && b.c.Text != "" {
		if !slices.Contains(could, b.c.Text) {
			return nil, fmt.Errorf("-text: column %q is not in the input, or is no text; choose one of %s", b.c.Text, quoted(could))
		}
		return item.over(b.c.Text), nil
	}
	// The first one that is no key, or the first key column where there is no other.
	i := slices.IndexFunc(could, func(name string) bool { return !slices.Contains(b.in.key, name) })
	return item.over(could[max(i, 0)]), nil
}

// over is the configuration of the index over a column.
func (i indexItem) over(column string) index.Config {
	col := index.Column{Name: column}
	if i.kind == indexOrdered {
		return index.Ordered{Name: indexOrdered + "_" + column, Columns: []index.Column{col}}
	}
	name := indexText + "_" + column
	if i.analyzer != "" {
		name += "_" + i.analyzer
	}
	return index.Text{Name: name, Column: col, Analyzer: i.analyzer}
}

// indexable lists the columns of the input that an index of the kind takes. An ordered
// index takes more than what the readers of bench can ask for.
func (b *bench) indexable(item indexItem) []string {
	var names []string
	for _, f := range b.in.Schema().Fields() {
		if item.kind == indexOrdered && !orderable(f.Type) {
			continue
		}
		if b.takes(item.over(f.Name)) == nil {
			names = append(names, f.Name)
		}
	}
	return names
}

// takes tells why the input's schema cannot have an index.
func (b *bench) takes(cfg index.Config) error {
	_, err := index.Bind(b.in.Schema(), nil, []index.Config{cfg})
	return err
}

// orderable names the types that surely can be indexed; memwal may know more.
func orderable(t arrow.DataType) bool {
	switch id := t.ID(); id {
	case arrow.STRING, arrow.LARGE_STRING, arrow.BINARY, arrow.LARGE_BINARY, arrow.DATE32, arrow.DATE64, arrow.TIMESTAMP:
		return true
	default:
		return arrow.IsInteger(id) || id == arrow.FLOAT32 || id == arrow.FLOAT64
	}
}

// indexName says in words what an index is.
func indexName(cfg index.Config) string {
	switch cfg := cfg.(type) {
	case index.Ordered:
		return "ordered index on " + cfg.Columns[0].Name
	case index.Text:
		analyzer := cfg.Analyzer
		if analyzer == "" {
			analyzer = index.DefaultAnalyzer
		}
		return fmt.Sprintf("text index on %s (%s)", cfg.Column.Name, analyzer)
	}
	return cfg.IndexName()
}
