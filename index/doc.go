// Package index holds the indexes of one memtable.
package index
