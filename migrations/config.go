package migrations

import (
	"fmt"
	"log/slog"
	"strings"
)

const (
	defaultSchema = "txonce"

	// maxSchemaLen is less than the 63 bytes of an identifier: a notification
	// channel named "<schema>.<topic>" is an identifier too, and the longest
	// topic of the job queue has 16 bytes.
	maxSchemaLen = 63 - len(".") - 16
)

// Config holds what may be chosen. The zero value is fine, and so is nil.
type Config struct {
	// Schema is the Postgres schema of txonce. It should hold nothing else. Two
	// applications in one database use two schemas. Lower-case letters, digits
	// and underscores, not starting with a digit or "pg_", at most 46 bytes.
	// Defaults to "txonce".
	Schema string

	// Logger hears of each applied file and of waiting for another process.
	// Defaults to a logger that discards everything.
	Logger *slog.Logger
}

// withDefaults returns a checked copy with every field set.
func (c *Config) withDefaults() (Config, error) {
	var out Config
	if c != nil {
		out = *c
	}
	if out.Schema == "" {
		out.Schema = defaultSchema
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	if !validSchema(out.Schema) {
		return Config{}, fmt.Errorf("migrations: Config.Schema %q is not usable: take lower-case letters, digits and underscores, "+
			"not starting with a digit or \"pg_\", at most %d bytes", out.Schema, maxSchemaLen)
	}
	return out, nil
}

// validSchema keeps to names that mean the same with and without quotes, and
// that need no escaping anywhere: the name is written into SQL text.
func validSchema(name string) bool {
	if name == "" || len(name) > maxSchemaLen || strings.HasPrefix(name, "pg_") || name == "information_schema" {
		return false
	}
	for i, r := range name {
		letter := r == '_' || (r >= 'a' && r <= 'z')
		digit := r >= '0' && r <= '9'
		if !letter && (!digit || i == 0) {
			return false
		}
	}
	return true
}
