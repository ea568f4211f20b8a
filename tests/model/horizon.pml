/* The horizon: the id above which claims start. Claimed: no row at or below it is pending and not known to this relay.
 *
 * More than speed hangs on it: a claim that starts above a row which somebody else has in flight would not be told of it,
 * and a later row on the same tuple would overtake it.
 *
 * Each sabotage below is a protocol that is wrong in one place; check.sh expects that spin finds out. */

#ifndef WRITERS /* 2 or 3 */
#define WRITERS 2
#endif
#ifndef ROUNDS /* transactions of each writer, one row each */
#define ROUNDS 2
#endif
#ifndef LANES
#define LANES 2
#endif
#ifndef LIMIT /* rows of a claim */
#define LIMIT 1
#endif
#ifndef OTHERS /* times that another drainer takes a row */
#define OTHERS 1
#endif

#define IDS (WRITERS * ROUNDS)
#define BIT(id) (1 << ((id) - 1))
#define UP_TO(id) ((1 << (id)) - 1)

/* The server. Sets of ids are bits. */
byte next = 1;      /* the sequence */
byte xact[WRITERS]; /* RowExclusiveLock on the outbox: 0: not held, else which transaction of the writer holds it */
byte pending;       /* committed and not delivered */
byte locked;

/* The relay. */
byte known; /* in flight in one of its lanes (a parked row is one that stays there) */
byte horizon;
mtype = { NO_STEP, REACHED, NOTED, GONE };
mtype step = NO_STEP;
byte reach; /* where the step is to bring the horizon */
byte noted[WRITERS];
bit confirms[LANES]; /* the lane's claim was sent when the writers had gone */

inline check()
{
	assert((pending & UP_TO(horizon) & ~known) == 0)
}

/* The table's lock comes before the id, since an insert takes it before it evaluates defaults. It goes after the rows are
 * visible: see hush.pml. */
proctype Writer(byte w)
{
	byte number = 1, id;

insert:
#ifdef DRAWS_BEFORE_LOCK
	atomic { id = next; next++ }
	xact[w] = number;
#else
	xact[w] = number;
	d_step { id = next; next++ }
#endif
	if
	:: d_step { pending = pending | BIT(id); id = 0; check() }
	:: id = 0 /* ROLLBACK */
	fi;
	atomic {
		xact[w] = 0;
		if
		:: number < ROUNDS -> number++; goto insert
		:: else
		fi
	}
}

/* Another relay, or the ledger's own loop: it delivers a row, or lets go of it. */
proctype Other()
{
	byte id, times;

end:
	do
	:: times < OTHERS ->
		atomic {
			if
			:: pending & ~locked & BIT(1) -> id = 1
			:: pending & ~locked & BIT(2) -> id = 2
			:: pending & ~locked & BIT(3) -> id = 3
#if WRITERS * ROUNDS > 3
			:: pending & ~locked & BIT(4) -> id = 4
#endif
			fi;
			locked = locked | BIT(id);
			times++
		}
		d_step {
			locked = locked & ~BIT(id);
			if
			:: pending = pending & ~BIT(id)
			:: true
			fi;
			id = 0
		}
	:: else -> break
	od
}

/* What a claim does in its one snapshot, from what it was sent with: from, knew and upto. theirs: the pending rows that
 * it did not get, up to the highest that it did get, and to where the step wants to go. */
inline execute_claim()
{
	d_step {
		id = from + 1;
		do
		:: id <= IDS ->
			if
			:: n < LIMIT && pending & ~knew & ~locked & BIT(id) ->
				mine = mine | BIT(id);
				n++;
				top = id
			:: else
			fi;
			id++
		:: else -> break
		od;
		n = 0;
		locked = locked | mine;
#ifndef THEIRS_BELOW_MINE
		if
		:: upto > top -> id = upto
		:: else -> id = top
		fi;
#else
		id = top;
#endif
		theirs = pending & ~knew & ~mine & ~UP_TO(from) & UP_TO(id);
		id = 0
	}
}

inline void_step()
{
	step = NO_STEP;
	reach = 0;
	confirms[0] = 0;
#if LANES > 1
	confirms[1] = 0;
#endif
	noted[0] = 0;
	noted[1] = 0;
#if WRITERS > 2
	noted[2] = 0;
#endif
}

inline note()
{
	d_step {
		noted[0] = xact[0];
		noted[1] = xact[1];
#if WRITERS > 2
		noted[2] = xact[2];
#endif
	}
}

proctype Lane(byte l)
{
	byte from, knew, upto;      /* what the claim is sent with */
	byte mine, theirs, top; /* what it comes back with */
	byte id, n;

claim:
	atomic {
		from = horizon;
		knew = known;
		upto = reach;
#ifdef CONFIRMED_TOO_EARLY
		confirms[l] = 1;
#else
		confirms[l] = step == GONE;
#endif
#ifdef NOTE_BEFORE_REACHED
		if
		:: step == NO_STEP -> note()
		:: else
		fi
#endif
	}
	execute_claim();
	if
	:: d_step { /* the connection is lost before the answer: nobody here learns which rows it had locked */
			locked = locked & ~mine;
			mine = 0
		}
	:: d_step {
			known = known | mine;
			if
			:: step == GONE && confirms[l] ->
				if
				:: (theirs & UP_TO(reach)) == 0 -> horizon = reach
				:: else
				fi;
				void_step()
			:: step == NO_STEP && top > horizon -> reach = top; step = REACHED
			:: else
			fi;
			check()
		}
	fi;
	d_step { from = 0; knew = 0; upto = 0; theirs = 0; top = 0; confirms[l] = 0 }
	if
	:: mine == 0
	:: d_step { mine > 0 -> locked = locked & ~mine; pending = pending & ~mine; known = known & ~mine; mine = 0 }
	:: atomic { mine > 0 -> locked = locked & ~mine } /* rolled back: pending again, and known until the relay has seen it */
		d_step {
			known = known & ~mine;
#ifndef LETS_GO_BELOW
			id = 0;
			do
			:: mine & UP_TO(id) -> break
			:: else -> id++
			od;
			if
			:: horizon >= id -> horizon = id - 1
			:: else
			fi;
			id = 0;
#endif
#ifndef LETS_GO_IN_STEP
			void_step();
#endif
			mine = 0;
			check()
		}
	fi;
	goto claim
}

#define IS_GONE(w) (noted[w] == 0 || xact[w] != noted[w])
#if WRITERS > 2
#define ALL_GONE (IS_GONE(0) && IS_GONE(1) && IS_GONE(2))
#else
#define ALL_GONE (IS_GONE(0) && IS_GONE(1))
#endif

proctype Step()
{
end:
	do
	:: d_step {
			step == REACHED ->
#ifndef NOTE_BEFORE_REACHED
			note();
#endif
			step = NOTED
		}
#ifdef NO_WAIT
	:: d_step {
			step == NOTED ->
#else
	:: d_step {
			step == NOTED && ALL_GONE ->
#endif
			noted[0] = 0;
			noted[1] = 0;
#if WRITERS > 2
			noted[2] = 0;
#endif
#ifdef NO_CONFIRMATION
			horizon = reach;
			void_step();
			check()
#else
			step = GONE
#endif
		}
	od
}

init {
	atomic {
		run Writer(0);
		run Writer(1);
#if WRITERS > 2
		run Writer(2);
#endif
		run Other();
		run Step();
		run Lane(0);
#if LANES > 1
		run Lane(1);
#endif
	}
}
