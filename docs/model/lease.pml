/* A leased call (txidem.RunLeased) and the claim on a message of the outbox: a claim that is committed before its effect, which lies
 * outside the database, with a lease that may run out at any moment, whether its holder is dead, frozen or at work.
 *
 *   one holder    nobody takes a claim whose lease has not run out
 *   one answer    what was recorded as the end is never changed
 *   by the holder an end is recorded only by the attempt that has the claim
 *
 * Mutants:
 *
 *   NO_TOKEN      whoever comes back records its end, as long as the call runs
 *   NO_STATE      whoever has the token records its end, also where it was recorded already (by a resolver)
 *   EARLY         a claim is taken over before its lease has run out
 */

#ifndef CLIENTS
#define CLIENTS 3
#endif
#define TRIES 2
#define NONE 0

mtype = { absent, running, ended };
mtype state = absent;
byte token = NONE;
bool live;               /* the lease has not run out */
byte answer = NONE;      /* whose end was recorded */
byte called[CLIENTS * TRIES + 1]; /* the other system was called, by attempt */

/* What no guard looks at, for the assertions. */
byte holders;            /* attempts that claimed, and whose lease has not run out */
byte holder = NONE;      /* the attempt that claimed last */
byte ends;               /* how often an end was recorded */

proctype clock() {
	do
	:: atomic { state == running && live -> live = false; holders-- }
	:: atomic { state == ended -> break }
	:: timeout -> break
	od
}

proctype client(byte me) {
	byte try, n;
again:
	if
	:: try == TRIES -> goto done
	:: else -> n = 1 + me * TRIES + try; try++
	fi;
	atomic {                                                   /* the claim: one statement under the call's lock */
		if
		:: state == ended -> goto done
#ifdef EARLY
		:: state == running ->
#else
		:: state == running && !live ->
#endif
			token = n; live = true
		:: state == absent -> state = running; token = n; live = true
		:: else -> goto again                                   /* in progress */
		fi;
		holder = n; holders++;
		assert(holders == 1)
	}
	if
	:: true
	:: goto again                                              /* died; its claim stays until the lease runs out */
	fi;
	called[n] = 1;                                             /* the effect; frozen here for as long as it likes */
	if
	:: true
	:: goto again
	fi;
	atomic {                                                   /* the end: one statement */
		if
#ifdef NO_TOKEN
		:: state == running ->
#else
#ifdef NO_STATE
		:: token == n ->
#else
		:: state == running && token == n ->
#endif
#endif
			state = ended; answer = n; holders = holders - live; live = false;
			assert(holder == n);
			ends++; assert(ends == 1)
		:: else                                                /* late: changes nothing */
		fi
	}
	goto again;
done:
	skip
}

/* An operator, or the author's function that asks the provider, ends a call of which nobody knows. */
proctype resolver() {
	atomic {
		if
		:: state == running && !live -> state = ended; answer = CLIENTS * TRIES + 1; ends++; assert(ends == 1)
		:: true
		fi
	}
}

init {
	atomic {
		byte i;
		run clock(); run resolver();
		for (i : 0 .. CLIENTS - 1) { run client(i) }
	}
	(_nr_pr == 1);
	assert(answer == NONE || answer == CLIENTS * TRIES + 1 || called[answer] == 1)
}
