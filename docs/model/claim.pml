/* A protected call by txidem.Run: one identity, clients that retry, a server that goes on when a client has died.
 *
 * Each step of a client is one statement or one message of the protocol in txidem/claim.go, finish.go and resolve.go; between
 * any two, everybody else may take theirs, the client may die (its server process then ends its transaction, unless COMMIT has
 * reached it), and the answer of COMMIT may be lost. What is held to:
 *
 *   one effect   at most one transaction with the effect commits
 *   one answer   whoever is answered is answered with what that transaction wrote
 *   no verdict   who lost the answer of COMMIT hears "committed" if and only if its own transaction was
 *   no idle run  no handler runs beside a record that was committed before its claim
 *
 * With LOCAL_LOCKS each client has an advisory lock of its own, as on a server whose locks are local to a node: then the primary
 * key alone keeps the effect single, and handlers run for nothing.
 *
 * Mutants:
 *
 *   ONE_STATEMENT       the record is read in the snapshot of the lock's own statement, that is, from before the lock
 *   RESOLVE_UNLOCKED    the resolver reads the record without the call's lock
 *   RESOLVE_ANY         the resolver takes any record for its own (no attempt token)
 *   LOCAL_LOCKS+NO_KEY  local locks, and no primary key
 */

#define CLIENTS 3
#define TRIES 2
#define NONE 0

#ifdef LOCAL_LOCKS
#define LOCKS CLIENTS
#define LOCK me
#else
#define LOCKS 1
#define LOCK 0
#endif

byte lock[LOCKS];        /* who holds the advisory lock: a transaction's number, or NONE */
byte record = NONE;      /* the committed record: the token of the attempt that wrote it */
byte effects = 0;        /* committed */
byte answered = NONE;    /* the first answer that anybody got */

/* The transactions of all attempts: a client's attempt n has number 1 + me * TRIES + n, which is its token as well. */
#define ALL (CLIENTS * TRIES + 1)
mtype = { idle, open, committing, committed, aborted };
mtype tx[ALL];
bool gone[ALL];          /* its client has died or lost the connection */

inline unlock(n, me) {
	if
	:: lock[LOCK] == n -> lock[LOCK] = NONE
	:: else
	fi
}

/* The server process of a transaction: it executes a COMMIT that has reached it, and ends a transaction whose client is gone. */
inline serve(n, me) {
	if
	:: tx[n] == committing ->
		if
#ifndef NO_KEY
		:: record != NONE -> tx[n] = aborted                  /* 23505 on call_pkey */
		:: record == NONE ->
#else
		:: true ->
#endif
			record = n; effects++; tx[n] = committed
		fi
	:: else -> tx[n] = aborted
	fi;
	unlock(n, me)
}

inline answer(with) {
	assert(answered == NONE || answered == with);
	answered = with
}

#define due(n) (tx[n] == committing || (tx[n] == open && gone[n]))

proctype server() {
end:	do
	:: atomic { due(1) -> serve(1, 0) }
	:: atomic { due(2) -> serve(2, 0) }
	:: atomic { due(3) -> serve(3, 1) }
	:: atomic { due(4) -> serve(4, 1) }
	:: atomic { due(5) -> serve(5, 2) }
	:: atomic { due(6) -> serve(6, 2) }
	od
}

proctype client(byte me) {
	byte try, n, seen, before;
	bool won;
again:
	if
	:: try == TRIES -> goto done
	:: else -> n = 1 + me * TRIES + try; try++
	fi;

	/* turn 1: begin and try-lock, then the record, in a statement of its own */
#ifdef ONE_STATEMENT
	before = record;
#endif
	atomic {
		tx[n] = open;
		if
		:: lock[LOCK] == NONE -> lock[LOCK] = n; won = true
		:: else -> won = false
		fi
	}
	if
	:: true
	:: gone[n] = true; goto wait                              /* died: somebody tries again with the same key */
	fi;
#ifdef ONE_STATEMENT
	seen = before;
#else
	seen = record;
#endif
	if
	:: seen != NONE ->
		atomic { tx[n] = aborted; unlock(n, me) }
		answer(seen);
		goto done
	:: seen == NONE && !won ->
		atomic { tx[n] = aborted }                             /* in progress: try again later */
		goto again
	:: else
	fi;

	/* turn 2: the handler */
#ifndef LOCAL_LOCKS
	assert(record == NONE);                                       /* no idle run */
#endif
	if
	:: true
	:: gone[n] = true; goto wait
	fi;

	/* turn 3: the record and COMMIT. It may be lost on its way, or its answer may, and with them the connection. */
	if
	:: tx[n] = committing
	:: gone[n] = true; goto resolve
	fi;
	if
	:: atomic { tx[n] == committed -> answer(record); goto done }
	:: atomic { tx[n] == aborted -> goto again }                   /* lost the race: a replay next time */
	:: gone[n] = true
	fi;
resolve:

	/* the resolver: the lock, then the record. Holding the lock proves that the old transaction has ended. */
#ifndef RESOLVE_UNLOCKED
#ifdef LOCAL_LOCKS
	(tx[n] == committed || tx[n] == aborted);
#else
	(lock[0] != n);
#endif
#endif
#ifdef RESOLVE_ANY
	if
	:: atomic { record != NONE -> assert(tx[n] == committed); answer(record); goto done }
	:: else -> goto again
	fi;
#else
	atomic {
		if
		:: record == n -> assert(tx[n] == committed); answer(n); goto done
		:: else -> assert(tx[n] == aborted)                        /* no verdict of a transaction that may still commit */
		fi
	};
	goto again;
#endif
wait:
	(tx[n] == committed || tx[n] == aborted);
	goto again;
done:
	skip
}

init {
	atomic {
		byte i;
		for (i : 0 .. ALL - 1) { tx[i] = idle }
		run server();
		for (i : 0 .. CLIENTS - 1) { run client(i) }
	}
	(_nr_pr == 2);
	assert(effects <= 1);
	assert((record == NONE) == (effects == 0))
}
