package main

import (
	"context"
	"fmt"
)

// What a record takes beside its own bytes: its pointer in the page, its places in the two indexes (that of the primary
// key two thirds full, as random keys leave it), and a tenth for what pages leave empty.
const (
	bytesAround   = 4 + 45 + 30
	walBound      = 6 << 30 // of max_wal_size, which is a soft limit
	walOfALoad    = 3       // times the data, if that is less
	serverItself  = 300 << 20
	bytesPerSize  = 1 << 20
	sqlRecordSize = `select pg_column_size(c.*) from %s.call c limit 1`
)

// checkSpace says how much disk the tables will take and refuses to fill it up.
func (g *growth) checkSpace(ctx context.Context) error {
	s := g.largest()
	var record int64
	if err := s.db.admin.QueryRow(ctx, fmt.Sprintf(sqlRecordSize, s.db.calls)).Scan(&record); err != nil {
		return err
	}
	rows := int64(g.options.expire * sweepRuns)
	for _, s := range g.sizes {
		rows += int64(s.records)
	}
	need := needed(rows, record)
	if g.server.PID() == 0 {
		g.say("%d records will need about %s on the server's disk; whether that is free cannot be seen from here", rows, gigabytes(need))
		return nil
	}
	var dir string
	if err := s.db.admin.QueryRow(ctx, `show data_directory`).Scan(&dir); err != nil {
		return err
	}
	free, ok := freeSpace(dir)
	if !ok {
		g.say("%d records will need about %s on the disk of %s; whether that is free cannot be seen here", rows, gigabytes(need), dir)
		return nil
	}
	g.say("%d records will need about %s, log included; %s are free on the disk of %s", rows, gigabytes(need), gigabytes(free), dir)
	return enough(need, free, dir)
}

// needed returns bytes.
func needed(rows, record int64) int64 {
	data := rows*(record+bytesAround)*11/10 + bytesPerSize
	return data + min(walBound, walOfALoad*data) + serverItself
}

func enough(need, free int64, dir string) error {
	if free < need {
		return fmt.Errorf("there are %s free on the disk of %s and about %s are needed: make room, point TMPDIR to a larger disk, or take fewer records, such as -sizes 1e4,1e6",
			gigabytes(free), dir, gigabytes(need))
	}
	return nil
}

func gigabytes(n int64) string { return fmt.Sprintf("%.1f GB", float64(n)/1e9) }
