package arch

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/memwal/memwal-go"

// allowed lists, for each package below the module, what it may import of the
// module. A pattern that ends in /... stands for the package and all below it.
// The order is that of the layers: a package may only name packages above it,
// which is what makes the imports acyclic by design and not by luck.
var allowed = []struct {
	pkg     string
	imports []string
}{
	{"internal/arch", nil},
	{"internal/fault", nil},
	{"internal/keys", nil},
	{"internal/schema", nil},
	{"internal/filter", []string{"internal/keys"}},
	{"internal/pagefile", nil},
	{"internal/telemetry", nil},
	{"objstore", []string{"internal/fault"}},
	{"objstore/gcs", []string{"objstore"}},
	{"objstore/azure", []string{"objstore"}},
	{"objstore/faultstore", []string{"objstore"}},
	{"objstore/objstoretest", []string{"objstore"}},
	{"internal/miniotest/...", []string{"objstore", "internal/miniotest/..."}},
	{"dispatcher", nil},
	{"index", []string{"internal/keys", "internal/pagefile", "internal/schema"}},
	{"memtable", []string{"index", "internal/schema"}},
	{"internal/wal/...", []string{"internal/fault", "objstore", "internal/wal/..."}},
	{"internal/manifest/...", []string{"objstore", "internal/wal", "internal/manifest/..."}},
	{"replay", []string{"memtable", "objstore", "internal/wal", "internal/manifest", "internal/schema"}},
	{"flusher", []string{"internal/fault", "memtable", "dispatcher", "objstore", "internal/wal", "internal/manifest", "internal/schema"}},
	{"memwal", []string{"internal/fault", "objstore", "dispatcher", "index", "memtable", "flusher", "replay", "internal/filter", "internal/wal", "internal/manifest", "internal/schema", "internal/telemetry"}},
	{"memwal/filtertext", []string{"memwal", "internal/filter"}},
	{"memwal/simulation", nil}, // tests only
	{"memwal/fight", nil},      // tests only
	{"bench/...", []string{"memwal", "memwal/filtertext", "index", "objstore", "objstore/faultstore", "flusher", "internal/miniotest/...", "bench/..."}},
	{"examples/...", []string{"memwal", "memwal/filtertext", "index", "objstore", "examples/..."}},
}

// forbidden lists packages that nobody may import, and why.
var forbidden = map[string]string{
	"github.com/blevesearch/bleve/v2": "its root package starts goroutines when it is imported; import its sub-packages",
	"github.com/minio/minio":          "the server is a tool of the tests, under a licence that must not be linked in",
}

func TestImportsFollowTheLayers(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, module+"/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module+"/")
		rule, ok := ruleOf(pkg)
		if !ok {
			t.Errorf("package %s has no rule: say in this test what it may import", pkg)
			continue
		}
		seen++
		for _, imp := range fields[1:] {
			if why, bad := forbidden[imp]; bad {
				t.Errorf("%s imports %s: %s", pkg, imp, why)
			}
			ours, isOurs := strings.CutPrefix(imp, module+"/")
			if isOurs && !slices.ContainsFunc(rule, func(p string) bool { return matches(p, ours) }) {
				t.Errorf("%s imports %s, which its layer does not allow", pkg, ours)
			}
		}
	}
	if seen < 10 {
		t.Fatalf("only %d packages were looked at", seen)
	}
}

func ruleOf(pkg string) ([]string, bool) {
	for _, r := range allowed {
		if matches(r.pkg, pkg) {
			return r.imports, true
		}
	}
	return nil, false
}

func matches(pattern, pkg string) bool {
	if dir, ok := strings.CutSuffix(pattern, "/..."); ok {
		return pkg == dir || strings.HasPrefix(pkg, dir+"/")
	}
	return pattern == pkg
}
