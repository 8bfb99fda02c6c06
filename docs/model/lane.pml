/* Messages of one ordering key (package outbox): producers that commit in any order, relays whose leases run out, results that come
 * late.
 *
 *   order         a message is sent for the first time only when all that were committed before it have been delivered
 *   nothing lost  when all is quiet, each committed message has been delivered, and is so on record because it was
 *
 * Mutants:
 *
 *   NO_LANE_LOCK  producers take their number without the key's lock
 *   NO_TOKEN      a late result counts
 *   ANY_MESSAGE   a relay takes any message that is due, not the first one of its key
 */

#define MESSAGES 3
#define RELAYS 2
#define LEASES 2         /* how often a lease runs out */
#define REFUSALS 2       /* how often the receiver refuses */
#define NONE 0

mtype = { absent, pending, leased, delivered };
mtype state[MESSAGES];   /* by number, as committed */
byte token[MESSAGES];
bool taken[MESSAGES];    /* by the receiver */
byte place[MESSAGES];    /* in the order of commits */
#define OVER(i) (state[i] == absent || state[i] == delivered)
#ifdef ANY_MESSAGE
#define BEHIND(i) true
#else
#define BEHIND(i) OVER(i)
#endif

byte lock = NONE, next = 0, commits = 0, over = 0, tokens = 0, expiries = 0, refusals = 0;

proctype producer(byte me) {
	byte n;
#ifndef NO_LANE_LOCK
	atomic { lock == NONE -> lock = me }
#endif
	atomic { n = next; next++ }                                  /* nextval */
	atomic {                                                     /* COMMIT, or ROLLBACK */
		if
		:: state[n] = pending; place[n] = commits; commits++
		:: true
		fi;
		if
		:: lock == me -> lock = NONE
		:: else
		fi;
		over++
	}
}

proctype relay() {
	byte n, mine, j;
	bool sent;
	do
	:: atomic { over == MESSAGES && OVER(0) && OVER(1) && OVER(2) -> break }
	:: atomic {                                                  /* the claim: one statement */
		if
		:: state[0] == pending -> n = 0
		:: BEHIND(0) && state[1] == pending -> n = 1
		:: BEHIND(0) && BEHIND(1) && state[2] == pending -> n = 2
		fi;
		tokens++; mine = tokens; token[n] = mine; state[n] = leased
	   }
	   sent = false;
	   if
	   :: true ->                                                /* the attempt; frozen for as long as it likes before it */
		atomic {
			if
			:: token[n] == mine && state[n] == leased ->
				for (j : 0 .. MESSAGES - 1) {
					assert(!(state[j] != absent && place[j] < place[n]) || taken[j])   /* order */
				}
				taken[n] = true; sent = true
			:: else                                             /* its lease was over: it does not begin */
			fi
		}
	   :: atomic { refusals < REFUSALS -> refusals++ }           /* refused */
	   fi;
	   atomic {                                                  /* the result: one statement */
		if
#ifdef NO_TOKEN
		:: true ->
#else
		:: state[n] == leased && token[n] == mine ->
#endif
			assert(state[n] == leased && token[n] == mine);
			if
			:: sent -> assert(taken[n]); state[n] = delivered
			:: !sent -> state[n] = pending
			fi
		:: else
		fi
	   }
	od
}

/* A lease runs out: of a relay that is dead, frozen, or slow. */
proctype clock() {
	byte n;
	do
	:: atomic { expiries < LEASES && state[0] == leased -> state[0] = pending; expiries++ }
	:: atomic { expiries < LEASES && state[1] == leased -> state[1] = pending; expiries++ }
	:: atomic { expiries < LEASES && state[2] == leased -> state[2] = pending; expiries++ }
	:: expiries == LEASES -> break
	:: timeout -> break
	od
}

init {
	byte i;
	atomic {
		for (i : 0 .. MESSAGES - 1) { state[i] = absent }
		run clock();
		for (i : 1 .. MESSAGES) { run producer(i) }
		for (i : 1 .. RELAYS) { run relay() }
	}
	(_nr_pr == 1);
	for (i : 0 .. MESSAGES - 1) { assert(state[i] == absent || (state[i] == delivered && taken[i])) }
}
