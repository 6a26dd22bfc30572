package minio

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// executable returns the path of the MinIO server, which it builds first where
// that has not been done: minutes when everything is cold. A file lock makes the
// test processes of several packages share one build.
func executable(ctx context.Context) (string, error) {
	module, err := moduleDir(ctx)
	if err != nil {
		return "", err
	}
	version, err := versionOf(module)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "memwal-test")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	exe := filepath.Join(dir, "minio-"+version)
	unlock, err := lockFile(filepath.Join(dir, "minio.lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(exe); err == nil {
		return exe, nil
	}
	built, err := build(ctx, module)
	if err != nil {
		return "", err
	}
	return exe, keep(built, exe)
}

// moduleDir finds the nested module: beside this file, or, in a build with
// -trimpath, below the main module.
func moduleDir(ctx context.Context) (string, error) {
	_, file, _, _ := runtime.Caller(0)
	dir := filepath.Join(filepath.Dir(file), "..", "server")
	if filepath.IsAbs(file) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
	}
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/memwal/memwal-go").Output()
	if err != nil {
		return "", fmt.Errorf("finding the source of memwal, which says how MinIO is built: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(root)), "internal", "miniotest", "server"), nil
}

// versionOf names what a build depends on.
func versionOf(module string) (string, error) {
	h := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", err
		}
		h.Write(data)
	}
	fmt.Fprint(h, runtime.GOOS, runtime.GOARCH)
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// build builds the tool into Go's build cache and returns its path there.
func build(ctx context.Context, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "tool", "-n", "minio")
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("building MinIO (go tool -n minio in %s): %w\n%s", module, err, stderr.Bytes())
	}
	return strings.TrimSpace(string(out)), nil
}

// keep links or copies the executable to a place where Go does not clean up,
// and where finding it takes no go command.
func keep(built, exe string) error {
	if err := os.Link(built, exe); err == nil || errors.Is(err, os.ErrExist) {
		return nil
	}
	src, err := os.Open(built)
	if err != nil {
		return err
	}
	defer src.Close()
	tmp, err := os.CreateTemp(filepath.Dir(exe), "minio-tmp-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = io.Copy(tmp, src)
	err = errors.Join(err, tmp.Chmod(0o755), tmp.Close())
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), exe)
}
