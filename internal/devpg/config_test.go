package devpg

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConfigRefusesParameters(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"port":             "5433",
		"Listen_Addresses": "*",
		"data_directory":   "/tmp",
		"":                 "x",
		"fsync=off -c x":   "x",
		"application_name": "a\x00b",
	} {
		_, err := Start(t.Context(), &Config{Parameters: map[string]string{name: value}})
		if err == nil || !strings.HasPrefix(err.Error(), "devpg: Config.Parameters: ") {
			t.Errorf("%q: error = %v", name, err)
		}
	}
}

func TestConfigServerArgs(t *testing.T) {
	t.Parallel()
	cfg := &Config{Durable: true, Parameters: map[string]string{"max_connections": "7", "fsync": "off"}}
	want := []string{"-c", "dynamic_shared_memory_type=mmap", "-c", "fsync=off", "-c", "max_connections=7"}
	if d := cmp.Diff(want, cfg.serverArgs()); d != "" {
		t.Error(d)
	}
}
