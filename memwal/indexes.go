package memwal

import (
	"cmp"
	"slices"

	"github.com/memwal/memwal-go/index"
	"github.com/memwal/memwal-go/internal/manifest"
)

// indexSpecs is what the manifest says about indexes.
func indexSpecs(configs []index.Config) []manifest.IndexSpec {
	var specs []manifest.IndexSpec
	for _, cfg := range configs {
		s := manifest.IndexSpec{Name: cfg.IndexName(), Kind: cfg.Kind()}
		for _, col := range indexColumns(cfg) {
			s.Columns = append(s.Columns, manifest.Column{Name: col.Name, FieldID: col.FieldID})
		}
		if t, ok := cfg.(index.Text); ok {
			s.Options = map[string]string{optionAnalyzer: cmp.Or(t.Analyzer, index.DefaultAnalyzer)}
			if t.NoPositions {
				s.Options[optionPositions] = "false"
			}
		}
		specs = append(specs, s)
	}
	return specs
}

// maxTextBytes is how many bytes the rows of a memtable with a text index may have.
const maxTextBytes = 1 << 30

func isTextIndex(cfg index.Config) bool { return cfg != nil && cfg.Kind() == index.KindText }

// The options of a text index in the manifest.
const (
	optionAnalyzer  = "analyzer"
	optionPositions = "positions" // "false"; absent: true
)

// indexConfigs is the way back, for readers. Kinds of newer versions are left out:
// their searches find no such index. So are text indexes with an analyzer of a newer
// version.
func indexConfigs(specs []manifest.IndexSpec) []index.Config {
	configs := []index.Config{}
	for _, s := range specs {
		var cols []index.Column
		for _, col := range s.Columns {
			cols = append(cols, index.Column{Name: col.Name, FieldID: col.FieldID})
		}
		switch {
		case s.Kind == index.KindOrdered:
			configs = append(configs, index.Ordered{Name: s.Name, Columns: cols})
		case s.Kind == index.KindText && len(cols) == 1 && slices.Contains(index.Analyzers(), s.Options[optionAnalyzer]):
			configs = append(configs, index.Text{
				Name: s.Name, Column: cols[0], Analyzer: s.Options[optionAnalyzer], NoPositions: s.Options[optionPositions] == "false",
			})
		}
	}
	return configs
}

// indexColumns are the columns that an index is over.
func indexColumns(cfg index.Config) []index.Column {
	switch cfg := cfg.(type) {
	case index.Ordered:
		return cfg.Columns
	case index.Text:
		return []index.Column{cfg.Column}
	}
	return nil
}

// overColumns is the configuration over other columns, as many as it has.
func overColumns(cfg index.Config, cols []index.Column) index.Config {
	switch cfg := cfg.(type) {
	case index.Ordered:
		cfg.Columns = cols
		return cfg
	case index.Text:
		cfg.Column = cols[0]
		return cfg
	}
	return cfg
}
