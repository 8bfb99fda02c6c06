package main

import (
	"context"
	"fmt"
	"strings"
)

// mishap is what the database does to one intent. It happens in triggers, so that the server of the demo is the very
// one that a reader copies, and so that it befalls protected and unprotected tools alike.
type mishap struct {
	slow  float64 // seconds that each insert takes
	moody bool    // the first insert fails, further ones do not
}

// place says where something is counted: one table, and in it a column. For the effects of a tool it tells intents apart.
type place struct{ table, column string }

func effectsOf(tool string) place {
	switch tool {
	case toolRefund:
		return place{"refunds", "order_id"}
	case toolTicket:
		return place{"tickets", "customer"}
	case toolStatement:
		return place{"statements", "account"}
	default:
		return place{"ledger", "account"}
	}
}

// arrange makes the triggers, and writes down which intents they hit.
func (db *database) arrange(ctx context.Context, intents []*intent) error {
	var sql strings.Builder
	sql.WriteString(sqlMishaps)
	for _, tool := range tools() {
		where := effectsOf(tool)
		fmt.Fprintf(&sql, "create trigger mishap before insert on %s for each row execute function befall('%s');\n", where.table, where.column)
	}
	for _, in := range intents {
		if in.mishap == (mishap{}) {
			continue
		}
		runs := "null"
		if in.mishap.moody {
			runs = fmt.Sprintf("'runs_%d'", in.number)
			fmt.Fprintf(&sql, "create sequence runs_%d;\n", in.number)
		}
		fmt.Fprintf(&sql, "insert into mishaps values ('%s', %g, %s);\n", in.subject, in.mishap.slow, runs)
	}
	if err := db.script(ctx, sql.String()); err != nil {
		return fmt.Errorf("arrange the mishaps of the demo: %w", err)
	}
	return nil
}

// sqlMishaps counts runs in sequences, for those are not rolled back.
const sqlMishaps = `
create table mishaps (subject text primary key, slow float not null, runs regclass);

create function befall() returns trigger language plpgsql as $$
declare
	m mishaps;
begin
	select * into m from mishaps where subject = to_jsonb(new) ->> tg_argv[0];
	perform pg_sleep(m.slow) where m.slow > 0;
	if m.runs is not null and nextval(m.runs) = 1 then
		raise exception 'the books are being closed, try again in a moment' using errcode = 'lock_not_available';
	end if;
	return new;
end $$;
`
