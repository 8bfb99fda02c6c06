package db

import "context"

// Refund is a row of refunds.
type Refund struct {
	ID      int64
	OrderID string
	Cents   int64
}

const addRefunded = `-- name: AddRefunded :execrows
update orders set refunded = refunded + $2 where id = $1
`

// AddRefundedParams are the parameters of AddRefunded.
type AddRefundedParams struct {
	ID       string
	Refunded int64
}

// AddRefunded returns the number of orders that it changed.
func (q *Queries) AddRefunded(ctx context.Context, arg AddRefundedParams) (int64, error) {
	result, err := q.db.Exec(ctx, addRefunded, arg.ID, arg.Refunded)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected(), nil
}

const createRefund = `-- name: CreateRefund :one
insert into refunds (order_id, cents) values ($1, $2)
returning id, order_id, cents
`

// CreateRefundParams are the parameters of CreateRefund.
type CreateRefundParams struct {
	OrderID string
	Cents   int64
}

// CreateRefund returns the new row.
func (q *Queries) CreateRefund(ctx context.Context, arg CreateRefundParams) (Refund, error) {
	row := q.db.QueryRow(ctx, createRefund, arg.OrderID, arg.Cents)
	var i Refund
	err := row.Scan(&i.ID, &i.OrderID, &i.Cents)
	return i, err
}
