/* A job (package jobs): doorbells that ring twice or for a worker that was thought dead, leases that run out at any moment, and a
 * commit half that holds the job's row and finds its own token in it.
 *
 *   one effect    at most one attempt's commit half commits
 *   by the holder it is that of the attempt which has the job
 *   truth         the job has succeeded if and only if there is an effect; one that was told to be cancelled has none
 *
 * Mutants:
 *
 *   NO_FENCE      the commit half does not look at the job
 *   NO_TOKEN      it looks whether the job runs, and not whose it is
 *   NO_ROW_LOCK   it looks, but without holding the row until it commits
 *   NO_STATE      a job that was cancelled between two attempts is begun again
 */

#ifndef WORKERS
#define WORKERS 3
#endif
#define RINGS 2
#define NONE 0

mtype = { queued, running, succeeded, cancelled };
mtype state = queued;
byte token = NONE;
bool live;
byte row = NONE;         /* who holds the row's lock */
byte effects = 0;
bool told;               /* somebody was told that it is cancelled */

proctype clock() {
	do
	:: atomic { state == running && live -> live = false }
	:: atomic { state == succeeded || state == cancelled -> break }
	:: timeout -> break
	od
}

proctype worker(byte me) {
	byte ring, n;
	bool mine;
again:
	if
	:: ring == RINGS -> goto done
	:: else -> n = 1 + me * RINGS + ring; ring++
	fi;
	atomic {                                                   /* the attempt begins: one statement */
		row == NONE;
		if
#ifdef NO_STATE
		:: state != succeeded && (state != running || !live) ->
#else
		:: state == queued || (state == running && !live) ->
#endif
			state = running; token = n; live = true
		:: else -> goto again                                   /* the doorbell rang for nothing */
		fi
	}
	if
	:: true                                                    /* the compute half, of any length */
	:: goto again                                              /* killed in it */
	fi;
#ifdef NO_ROW_LOCK
	mine = (state == running && token == n);
#else
	atomic { row == NONE -> row = n }                          /* select … for update */
#ifdef NO_FENCE
	mine = true;
#else
#ifdef NO_TOKEN
	mine = (state == running);
#else
	mine = (state == running && token == n);
#endif
#endif
#endif
	if
	:: mine
	:: else -> goto release
	fi;
	if
	:: true                                                    /* its statements */
	:: goto release                                            /* killed, or failed: rolled back */
	fi;
	atomic {                                                   /* COMMIT: the effect and the job's end */
		assert(token == n && !told);
		effects++; state = succeeded; live = false
	}
release:
	atomic {
		if
		:: row == n -> row = NONE
		:: else
		fi
	}
	goto again;
done:
	skip
}

proctype canceller() {
	atomic {
		row == NONE;
		if
		:: state == queued || (state == running && !live) -> state = cancelled; live = false; told = true
		:: true
		fi
	}
}

init {
	atomic {
		byte i;
		run clock(); run canceller();
		for (i : 0 .. WORKERS - 1) { run worker(i) }
	}
	(_nr_pr == 1);
	assert(effects <= 1);
	assert((state == succeeded) == (effects == 1));
	assert(state != cancelled || effects == 0)
}
