package migrations

import (
	"fmt"
	"log/slog"
	"strings"
)

const (
	defaultSchema = "txonce"

	// riverSuffix makes the default of Config.RiverSchema out of Config.Schema.
	riverSuffix = "_river"

	// maxSchemaLen is less than the 63 bytes of an identifier: a notification
	// channel named "<schema>.<topic>" is an identifier too, and the longest
	// topic of the job queue has 16 bytes.
	maxSchemaLen = 63 - len(".") - 16
)

// Config holds what may be chosen. The zero value is fine, and so is nil.
type Config struct {
	// Schema is the Postgres schema of txonce. It should hold nothing else. Two
	// applications in one database use two schemas. Lower-case letters, digits
	// and underscores, not starting with a digit or "pg_", at most 46 bytes, or 40
	// where RiverSchema is derived from it. Defaults to "txonce".
	Schema string

	// RiverSchema is the schema of the tables of River, the job queue: another one
	// than Schema, with a name by the same rules and of at most 46 bytes. It serves
	// one Schema only. A River of the application's own may be in it already; see
	// the package documentation. Defaults to Schema + "_river".
	RiverSchema string

	// NoRiver leaves River alone: for an application that has no jobs, or that runs
	// River's migrations itself and shares its client. It is an error together with
	// RiverSchema. Defaults to false: Up makes River's tables.
	NoRiver bool

	// Logger hears of each applied migration and of waiting for another process.
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
		return Config{}, errSchemaName("Schema", out.Schema)
	}
	if err := out.checkRiver(); err != nil {
		return Config{}, err
	}
	return out, nil
}

// checkRiver sets RiverSchema, which stays empty with NoRiver.
func (c *Config) checkRiver() error {
	switch {
	case c.NoRiver && c.RiverSchema != "":
		return fmt.Errorf("migrations: Config.RiverSchema %q and Config.NoRiver are both set: leave one of them out", c.RiverSchema)
	case c.NoRiver:
		return nil
	case c.RiverSchema == "":
		c.RiverSchema = c.Schema + riverSuffix
		if len(c.RiverSchema) > maxSchemaLen {
			return fmt.Errorf("migrations: Config.Schema %q is too long for River's schema to be named after it (%q has more than %d bytes): "+
				"set Config.RiverSchema, or Config.NoRiver, or take a Schema of at most %d bytes",
				c.Schema, c.RiverSchema, maxSchemaLen, maxSchemaLen-len(riverSuffix))
		}
	case !validSchema(c.RiverSchema):
		return errSchemaName("RiverSchema", c.RiverSchema)
	case c.RiverSchema == c.Schema:
		return fmt.Errorf("migrations: Config.RiverSchema and Config.Schema are both %q: River's tables need a schema of their own", c.Schema)
	}
	return nil
}

func errSchemaName(field, name string) error {
	return fmt.Errorf("migrations: Config.%s %q is not usable: take lower-case letters, digits and underscores, "+
		"not starting with a digit or \"pg_\", at most %d bytes", field, name, maxSchemaLen)
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
