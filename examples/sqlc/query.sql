-- name: CreateRefund :one
insert into refunds (order_id, cents) values ($1, $2)
returning id, order_id, cents;

-- name: AddRefunded :execrows
update orders set refunded = refunded + $2 where id = $1;
