package migrations_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/txonce/txonce/migrations"
)

func ExampleUp() {
	ctx := context.Background()
	url, drop := migrations.DatabaseForExample()
	defer drop()

	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	// Every process calls it at every start.
	if err := migrations.Up(ctx, pool, nil); err != nil {
		log.Fatal(err)
	}
	current, latest, err := migrations.Version(ctx, pool, nil)
	fmt.Println(current == latest, err)
	// Output: true <nil>
}
