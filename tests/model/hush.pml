/* The wake protocol: writers whose trigger a busy relay hushes, and relays that sleep only when nothing can be missed.
 *
 * Claimed: when every writer has ended and every relay sleeps, no committed row is pending that a living relay answers
 * for. A relay that died answers for what it had hushed or held: that is the sweep's, which is not modelled.
 *
 * Each sabotage below is a protocol that is wrong in one place; check.sh expects that spin finds out. */

#ifndef WRITERS /* 1 to 3 */
#define WRITERS 2
#endif
#ifndef ROUNDS /* transactions of each writer */
#define ROUNDS 2
#endif
#ifndef STATEMENTS /* inserts of each transaction, at most */
#define STATEMENTS 1
#endif
#ifndef RELAYS /* 1 or 2 */
#define RELAYS 1
#endif
#ifndef DEATHS /* relays that may be killed */
#define DEATHS 0
#endif
#ifndef LOSSES /* connections that relays may lose */
#define LOSSES 0
#endif

#if DEATHS > 0
#define CLASSES 4 /* sets of two relays */
#define BIT(r) (1 << (r))
#else
#define CLASSES 1
#define BIT(r) 0
#endif

/* The server. Each of its steps is one statement below, and steps of different sessions come in any order. */
byte k;             /* advisory lock K, exclusive: 0: free, else 1 + the relay whose session holds it */
byte xact[WRITERS]; /* RowExclusiveLock on the outbox: 0: not held, else which transaction of the writer holds it */
bit free[CLASSES];  /* some row is committed, pending and not locked; by the set of relays that hushed it, 0: notified */
bit mine[RELAYS];   /* some row is committed, pending and locked by this relay's transaction */
bit asked[RELAYS];  /* a try for K is on its way */
bit old[RELAYS];    /* a session of the relay's lives on that the relay has lost; it may hold K, or be about to try */

/* The relays, as far as others look at them. */
bit listens[RELAYS];
bit inbox[RELAYS]; /* a notification has arrived that the relay has not looked at */
bit asleep[RELAYS];
bit dead[RELAYS];
byte ended; /* writers */

#define HOLDS_K(r) (k == (r) + 1 && !old[r])

inline signal()
{
	d_step {
		inbox[0] = inbox[0] | listens[0];
#if RELAYS > 1
		inbox[1] = inbox[1] | listens[1];
#endif
	}
}

/* A transaction of up to STATEMENTS inserts, each perhaps in a savepoint that is rolled back.
 *
 * An insert takes RowExclusiveLock before it draws its id, and its statement trigger runs inside the transaction. The
 * trigger's try for K in shared mode and its release are one step here: all they could do to others is make a relay's try
 * fail, which Server does anyway. A commit, in CommitTransaction's order: the notification goes into the queue, where a
 * listener stops before it as long as the transaction runs (PreCommit_Notify); the rows are visible
 * (ProcArrayEndTransaction); the locks are gone (ResourceOwnerRelease); listeners are signalled (AtCommit_Notify), or have
 * looked by themselves before. */
proctype Writer(byte w)
{
	byte number = 1, statement, hushed_by;
	bit rows, notifies, had_lock;

insert:
	atomic { had_lock = xact[w] != 0; xact[w] = number }
	atomic {
		if
		:: k == 0 -> notifies = 1; rows = 1
		:: k != 0 -> hushed_by = hushed_by | BIT(k - 1); rows = 1
		:: !had_lock -> xact[w] = 0 /* ROLLBACK TO SAVEPOINT: row, notification and a lock that is new are gone */
		:: had_lock
		fi;
		had_lock = 0;
		statement++;
		if
		:: statement < STATEMENTS -> goto insert
		:: true
		fi
	}
	atomic {
		if
		:: rows = 0 /* ROLLBACK */
		:: rows && notifies -> free[0] = 1
		:: rows && !notifies -> free[hushed_by] = 1
		fi;
		notifies = notifies && rows;
		rows = 0; hushed_by = 0; statement = 0
	}
	if
	:: atomic { notifies -> signal(); notifies = 0 }
	:: true
	fi;
	xact[w] = 0;
	atomic {
		if
		:: notifies -> signal(); notifies = 0
		:: else
		fi;
		if
		:: number < ROUNDS -> number++; goto insert
		:: else -> ended++
		fi
	}
}

#if DEATHS > 0
#define ANY_FREE (free[0] || free[1] || free[2] || free[3])
#else
#define ANY_FREE free[0]
#endif

/* One statement and one snapshot: it locks every pending row that nobody else has locked. What was notified before it was
 * sent needs no further look. (That it is sent and carried out in one step hides nothing: a notification in between could
 * as well come after it.) */
inline claim()
{
	d_step {
#ifndef CLEARS_LATE
		inbox[r] = 0;
#endif
		if
		:: ANY_FREE ->
			mine[r] = 1;
			free[0] = 0;
#if DEATHS > 0
			free[1] = 0; free[2] = 0; free[3] = 0;
#endif
		:: else
		fi
	}
}

inline let_go()
{
	d_step { free[BIT(r)] = free[BIT(r)] | mine[r]; mine[r] = 0 }
}

/* The rows are marked, or the transaction is rolled back (its connection, or OpenFGA, was lost). The relay knows of either,
 * and claims again: it answers for rows that it let go. */
inline finish()
{
	if
	:: mine[r] = 0
	:: let_go()
	fi
}

inline release()
{
	d_step {
		if
		:: HOLDS_K(r) -> k = 0
		:: else
		fi
	}
}

inline note()
{
	d_step {
		noted[0] = xact[0];
#if WRITERS > 1
		noted[1] = xact[1];
#endif
#if WRITERS > 2
		noted[2] = xact[2];
#endif
	}
}

#define IS_GONE(w) (noted[w] == 0 || xact[w] != noted[w])
#if WRITERS == 1
#define ALL_GONE IS_GONE(0)
#elif WRITERS == 2
#define ALL_GONE (IS_GONE(0) && IS_GONE(1))
#else
#define ALL_GONE (IS_GONE(0) && IS_GONE(1) && IS_GONE(2))
#endif

inline forget_notes()
{
#ifndef KEEPS_NOTES
	d_step {
		noted[0] = 0;
#if WRITERS > 1
		noted[1] = 0;
#endif
#if WRITERS > 2
		noted[2] = 0;
#endif
	}
#else
	true
#endif
}

proctype Relay(byte r)
{
	byte noted[WRITERS];
	bit owes; /* it has tried for K since the last settling that came to its end */

	{
		owes = 0;
#ifdef DRAIN_BEFORE_LISTEN
		claim();
		finish();
#endif
listen:
		listens[r] = 1;
#ifdef DRAIN_BEFORE_LISTEN
		goto sleep;
#endif

busy:
		do
		:: atomic { k != r + 1 && !asked[r] && !old[r] -> asked[r] = 1; owes = 1 }
		:: atomic {
				claim();
				if
				:: mine[r]
				:: !mine[r] && !owes -> goto sleep
				:: !mine[r] && owes -> break
				fi
			}
			finish()
		od;

#ifdef FORGETS_DEBT
		if
		:: atomic { !asked[r] && !HOLDS_K(r) -> owes = 0; goto sleep }
		:: else
		fi;
#endif
#ifndef IGNORES_TRY
		(!asked[r] || old[r]);
#endif
#ifdef NOTE_BEFORE_RELEASE
		note();
#endif
		release();
#ifdef NO_SETTLE
		atomic { owes = 0; forget_notes(); goto sleep }
#endif
#ifdef IGNORES_OLD
		note();
#else
#ifdef KEEPS_NOTES
		if
		:: noted[0] + noted[1] == 0 -> note()
		:: else
		fi;
#else
#ifndef NOTE_BEFORE_RELEASE
		atomic { !old[r] -> note() }
#endif
#endif
#endif

settle:
		do
		:: atomic {
				claim();
				if
				:: mine[r]
				:: else -> goto settle
				fi
			}
			finish();
			if
			:: atomic { forget_notes(); goto busy }
			:: goto settle
			fi
#ifdef NO_WAIT
		:: break
#else
		:: ALL_GONE -> break
#endif
		od;

#ifdef SCAN_BEFORE_GONE
		atomic { owes = 0; forget_notes(); goto sleep }
#endif
scan:
		atomic {
			claim();
			if
			:: mine[r]
			:: else -> owes = 0; forget_notes(); goto sleep
			fi
		}
		finish();
		if
		:: atomic { forget_notes(); goto busy }
		:: goto scan
		fi;

sleep:
#ifdef CLEARS_LATE
		inbox[r] = 0;
#endif
		asleep[r] = 1;
end_asleep:
		if
		:: atomic { inbox[r] -> asleep[r] = 0; goto busy }
		:: atomic { !listens[r] -> asleep[r] = 0; goto listen }
		fi
	} unless { dead[r] }
}

/* What becomes of a try for K, and of sessions that their relay has lost. */
proctype Server(byte r)
{
end:
	do
	:: d_step { asked[r] && k == 0 -> k = r + 1; asked[r] = 0 }
	:: asked[r] -> asked[r] = 0 /* somebody has K, if only a trigger for a moment */
	:: d_step {
		old[r] ->
		if
		:: k == r + 1 -> k = 0
		:: else
		fi;
		asked[r] = 0;
		old[r] = 0
	}
	od
}

inline select_relay()
{
	if
	:: r = 0
#if RELAYS > 1
	:: r = 1
#endif
	fi
}

/* What goes wrong. */
proctype Faults()
{
	byte deaths, losses, r;

end:
	do
	:: deaths < DEATHS ->
		select_relay();
		d_step {
			dead[r] = 1;
			let_go();
			listens[r] = 0; inbox[r] = 0; asleep[r] = 0;
			old[r] = 1;
			deaths++
		}
	:: losses < LOSSES ->
		select_relay();
		if
		:: d_step { !dead[r] && (asked[r] || k == r + 1) -> old[r] = 1 }
		:: d_step { !dead[r] && listens[r] -> listens[r] = 0; inbox[r] = 0 }
		:: else
		fi;
		losses++
	:: deaths == DEATHS && losses == LOSSES -> break
	od
}

#define RESTS(r) (dead[r] || (asleep[r] && listens[r] && !inbox[r]))
#if RELAYS > 1
#define ALL_REST (RESTS(0) && RESTS(1))
#define LIVING ((dead[0] -> 0 : 1) | (dead[1] -> 0 : 2))
#else
#define ALL_REST RESTS(0)
#define LIVING (dead[0] -> 0 : 1)
#endif
#ifdef EXPECTS_DEATH_TO_COST_NOTHING
#define MISSED (LIVING && ANY_FREE)
#elif DEATHS > 0
/* What was notified is for every living relay. */
#define MISSED ((LIVING && free[0]) || (LIVING & 1 && free[1]) || (LIVING & 2 && free[2]) || (LIVING && free[3]))
#else
#define MISSED free[0]
#endif

proctype Monitor()
{
end:
	ended == WRITERS && ALL_REST && MISSED -> assert(false)
}

init {
	atomic {
		run Monitor();
		run Writer(0);
#if WRITERS > 1
		run Writer(1);
#endif
#if WRITERS > 2
		run Writer(2);
#endif
		run Relay(0);
		run Server(0);
#if RELAYS > 1
		run Relay(1);
		run Server(1);
#endif
#if DEATHS + LOSSES > 0
		run Faults();
#endif
	}
}
