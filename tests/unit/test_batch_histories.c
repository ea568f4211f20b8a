#include "batch_history.h"

/* Batches with random rows, driven against an OpenFGA that loses answers, is slow, refuses and fails, on a clock of
 * their own. What must hold whatever happens is checked at every step. A failure names its seed: run that one alone. */

enum { HISTORIES = 4000 };

/* OpenFGA */

/* Later rows, and the row's own write of a tuple that it deletes, must not be on their way yet. */
static void check_nothing_later_was_sent(size_t row, const struct sim_op *op)
{
	for (size_t later = row; later < sim.n; later++)
		for (size_t i = 0; i < sim.rows[later].n; i++) {
			const struct sim_op *other = &sim.rows[later].ops[i];
			bool is_later = later > row || other > op;
			CHECK(!is_later || !conflict(op, other) || !other->sent);
		}
}

static void carry_out_op(const struct request *r, size_t row, struct sim_op *op)
{
	(void)r;
	check_nothing_later_was_sent(row, op);
	sim.tuples[op->tuple] = op->is_write ? (int)op->condition : -1;
}

static void carry_out(const struct request *r)
{
	each_op(r, carry_out_op);
}

static enum condition worst_condition(const struct request *r)
{
	enum condition worst = NONE;
	for (size_t i = 0; i < r->n; i++)
		for (uint32_t k = 0; k < r->parts[i].n; k++) {
			enum condition c = sim.rows[r->parts[i].row].ops[r->parts[i].first + k].condition;
			worst = c > worst ? c : worst;
		}
	return worst;
}

struct reply {
	enum verdict verdict;
	enum hint hint;
	bool unknown;
};

static const struct reply lost = {VERDICT_RETRY, HINT_NONE, true};

/* Whether OpenFGA refuses the request, and with which answer. */
static bool refuses(const struct request *r, size_t tuples, struct reply *reply)
{
	static const struct reply to_condition[CONDITIONS] = {
	    [REFUSED] = {VERDICT_SPLIT, HINT_NONE, false},
	    [CURSED] = {VERDICT_RETRY, HINT_PROBE, true},
	    [FORGED] = {VERDICT_HALT, HINT_PROBE, false},
	};
	enum condition worst = worst_condition(r);
	if (sim.world.old && tuples > 1)
		*reply = (struct reply){VERDICT_SPLIT, HINT_OLD, false};
	else if (tuples > sim.world.limit)
		*reply = (struct reply){VERDICT_SPLIT, HINT_SIZE, false};
	else if (worst >= REFUSED)
		*reply = to_condition[worst];
	else
		return false;
	return true;
}

/* What is known to have been sent and no more is carried out now, later, or never. */
static void carry_out_perhaps(const struct request *r)
{
	int when = upto(2);
	if (when == 0)
		carry_out(r);
	if (when != 1)
		return;
	CHECK(sim.n_late < MOST_LATE);
	sim.late[sim.n_late++] = (struct late){r, sim.now_ms + 1 + upto(SETTLE_MS - 2)};
}

/* What OpenFGA answers; what the request did to its tuples, but for what it does with its answer, is done. */
static struct reply reply_to(struct flight *f, size_t tuples)
{
	static const struct reply troubles[] = {
	    {VERDICT_RETRY, HINT_NONE, false}, {VERDICT_RETRY, HINT_SLOWER, false}, {VERDICT_HALT, HINT_NONE, false},
	    {VERDICT_RETRY, HINT_RACE, false}, {VERDICT_RETRY, HINT_RACE, false},   {VERDICT_RETRY, HINT_SLOWER, true},
	    {VERDICT_RETRY, HINT_PROBE, true}, {VERDICT_RETRY, HINT_PROBE, true},   {VERDICT_RETRY, HINT_NONE, true},
	};
	struct reply reply = {VERDICT_DELIVERED, HINT_NONE, false};
	bool in_trouble = chance(sim.world.trouble);
	if (refuses(f->request, tuples, &reply))
		return sim.world.black_hole || (in_trouble && chance(50)) ? lost : reply;
	if (in_trouble)
		reply = troubles[upto(sizeof troubles / sizeof *troubles - 1)];
	else if (sim.world.black_hole)
		reply = lost;
	if (reply.hint == HINT_PROBE && f->request->tries > 1)
		reply = lost; /* two in a row are for requests that are at fault */
	if (reply.unknown)
		carry_out_perhaps(f->request);
	f->carried_out_at_answer = reply.verdict == VERDICT_DELIVERED && chance(50);
	if (reply.verdict == VERDICT_DELIVERED && !f->carried_out_at_answer)
		carry_out(f->request);
	return reply;
}

/* A refusal names a tuple that is at fault, or, since it is only a hint, any other one. */
static void point_at_one(const struct request *r, struct fault *fault)
{
	int skip = upto((int)r->tuples - 1);
	bool lies = chance(10);
	const struct tuple *named = NULL;
	for (size_t i = 0; i < r->n; i++)
		for (uint32_t k = 0; k < r->parts[i].n; k++) {
			size_t op = r->parts[i].first + k;
			if (!lies && sim.rows[r->parts[i].row].ops[op].condition < REFUSED)
				continue;
			if (named == NULL || skip-- > 0)
				named = &sim.b.rows[r->parts[i].row].payload.ops[op].tuple;
		}
	if (named == NULL)
		return;
	*fault = (struct fault){.tuple = named->hash, .kind = chance(30) ? tuple_kind(named) : 0};
	for (size_t i = 0; i < r->n; i++) {
		const struct payload *payload = &sim.b.rows[r->parts[i].row].payload;
		for (size_t k = 0; k < payload->n; k++)
			sim.rows[r->parts[i].row].pointed_at |=
			    payload->ops[k].tuple.hash == fault->tuple ||
			    (fault->kind != 0 && tuple_kind(&payload->ops[k].tuple) == fault->kind);
	}
}

static void receive(struct flight *f, size_t tuples)
{
	*f = (struct flight){.request = f->request};
	struct reply reply = reply_to(f, tuples);
	f->judgement = (struct judgement){
	    .verdict = reply.verdict,
	    .hint = reply.hint,
	    .unknown = reply.unknown,
	    .retry_after_ms = reply.hint == HINT_SLOWER ? upto(3000) : 0,
	    .reason = "because",
	};
	if (reply.verdict == VERDICT_SPLIT && chance(sim.world.plain ? 80 : 30))
		point_at_one(f->request, &f->judgement.fault);
	f->answered_ms = sim.now_ms + 1 + upto(chance(5) ? 2 * SETTLE_MS : 50);
}

/* What is sent */

/* Each lower row that conflicts is delivered, and of the row's own operations the deletion of the same tuple. */
static void check_order(const struct request *r, size_t row, struct sim_op *op)
{
	(void)r;
	for (size_t lower = 0; lower < row; lower++)
		for (size_t i = 0; i < sim.rows[lower].n; i++)
			CHECK(sim.rows[lower].unreadable || !conflict(op, &sim.rows[lower].ops[i]) ||
			      sim.b.rows[lower].state == ROW_DELIVERED);
	for (const struct sim_op *own = sim.rows[row].ops; own < op; own++)
		CHECK(!conflict(op, own) || own->accepted);
	CHECK(!sim.rows[row].held && !sim.rows[row].unreadable);
	op->sent = true;
}

/* The operations in one list of the body, as they are expected: expected[tuple] is the condition, -1 for none. */
static size_t check_list(const cJSON *body, const char *name, int expected[TUPLES])
{
	const cJSON *list = cJSON_GetObjectItemCaseSensitive(body, name);
	const cJSON *key;
	char last[64] = "";
	size_t n = 0;
	cJSON_ArrayForEach(key, cJSON_GetObjectItemCaseSensitive(list, "tuple_keys"))
	{
		char sorted[64];
		const char *user = cJSON_GetObjectItemCaseSensitive(key, "user")->valuestring;
		const char *object = cJSON_GetObjectItemCaseSensitive(key, "object")->valuestring;
		long tuple = strtol(user + strlen("user:"), NULL, 10);
		CHECK(tuple >= 0 && tuple < TUPLES && expected[tuple] >= 0);
		const cJSON *condition = cJSON_GetObjectItemCaseSensitive(key, "condition");
		CHECK((condition != NULL) == (expected[tuple] != NONE));
		expected[tuple] = -1;
		snprintf(sorted, sizeof sorted, "%s %s", object, user);
		CHECK(strcmp(last, sorted) < 0);
		memcpy(last, sorted, sizeof last);
		n++;
	}
	for (int tuple = 0; tuple < TUPLES; tuple++)
		CHECK(expected[tuple] == -1);
	return n;
}

static int expected[2][TUPLES];

static void expect(const struct request *r, size_t row, struct sim_op *op)
{
	(void)r;
	(void)row;
	int *condition = &expected[op->is_write][op->tuple];
	CHECK(*condition == -1 || *condition == (int)op->condition);
	*condition = (int)op->condition;
}

/* The body holds each operation of the request once. Returns how many. */
static size_t check_body(const struct request *r)
{
	struct buf body = {0};
	memset(expected, -1, sizeof expected);
	each_op(r, expect);
	size_t tuples = batch_body(&sim.b, r, (struct str){0}, &body);
	cJSON *tree = cJSON_Parse(body.p);
	CHECK(tree != NULL);
	CHECK(check_list(tree, "deletes", expected[0]) + check_list(tree, "writes", expected[1]) == tuples);
	CHECK(r->tuples <= sim.b.limits.max_tuples);
	CHECK(body.n <= r->bytes && (r->bytes <= sim.b.limits.max_bytes || r->tuples == 1));
	cJSON_Delete(tree);
	buf_free(&body);
	return tuples;
}

static bool may_be_cut(const struct sim_row *row)
{
	return sim.world.old || sim.world.limit < TUPLES || sim.b.limits.max_bytes < 10000 ||
	       row->n > sim.b.limits.max_tuples || changes_a_tuple_twice(row);
}

static void check_parts(const struct request *r)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct part *part = &r->parts[i];
		const struct sim_row *row = &sim.rows[part->row];
		bool is_whole = part->n == row->n;
		CHECK(part->first + part->n <= row->n && part->n > 0);
		CHECK(is_whole || may_be_cut(row));
		CHECK(!sim.b.rows[part->row].alone || r->n == 1);
		CHECK(r->tries > 1 || sim.b.rows[part->row].state == ROW_PENDING);
		seen.lone += sim.b.rows[part->row].alone;
		seen.cut += !is_whole;
	}
}

/* Counts the tuples of a request in flight, each once. */
static void occupy(const struct request *r, int by)
{
	bool has[TUPLES] = {false};
	for (size_t i = 0; i < r->n; i++)
		for (uint32_t k = 0; k < r->parts[i].n; k++)
			has[sim.rows[r->parts[i].row].ops[r->parts[i].first + k].tuple] = true;
	for (int tuple = 0; tuple < TUPLES; tuple++)
		if (has[tuple]) {
			sim.busy[tuple] += by;
			CHECK(sim.busy[tuple] <= 1);
		}
}

static void send_request(struct request *r)
{
	CHECK(r->state == REQUEST_IN_FLIGHT && r->n > 0);
	CHECK(sim.now_ms < sim.b.limits.deadline_ms);
	check_parts(r);
	size_t tuples = check_body(r);
	each_op(r, check_order);
	occupy(r, 1);
	seen.sent++;
	seen.again += r->tries > 1;
	struct flight *f = &sim.flights[sim.n_flights++];
	f->request = r;
	receive(f, tuples);
}

/* What comes back */

static void accept_op(const struct request *r, size_t row, struct sim_op *op)
{
	(void)r;
	(void)row;
	op->accepted = true;
}

static void take_answer(size_t index)
{
	struct flight f = sim.flights[index];
	sim.flights[index] = sim.flights[--sim.n_flights];
	if (f.carried_out_at_answer)
		carry_out(f.request);
	if (f.judgement.verdict == VERDICT_DELIVERED)
		each_op(f.request, accept_op);
	occupy(f.request, -1);
	enum verdict v = batch_answer(&sim.b, f.request, &f.judgement, sim.now_ms, &sim.rng);
	bool forged = f.judgement.verdict == VERDICT_HALT && f.judgement.hint == HINT_PROBE;
	if (f.judgement.verdict == VERDICT_SPLIT)
		CHECK(v == VERDICT_SPLIT || v == VERDICT_REJECTED);
	else
		CHECK(v == (forged ? VERDICT_RETRY : f.judgement.verdict));
	seen.split += v == VERDICT_SPLIT;
}

static void take_probe(void)
{
	struct judgement j = {.verdict = sim.world.cannot_write ? VERDICT_RETRY : VERDICT_DELIVERED};
	sim.probed_ms = 0;
	seen.probes++;
	batch_probed(&sim.b, !sim.world.cannot_write, &j, sim.now_ms, &sim.rng);
	CHECK(!batch_wants_probe(&sim.b));
}

static void take_what_is_due(void)
{
	for (size_t i = sim.n_late; i-- > 0;)
		if (sim.late[i].at_ms <= sim.now_ms) {
			carry_out(sim.late[i].request);
			sim.late[i] = sim.late[--sim.n_late];
			seen.late++;
		}
	for (size_t i = sim.n_flights; i-- > 0;)
		if (sim.flights[i].answered_ms <= sim.now_ms)
			take_answer(i);
	if (sim.probed_ms != 0 && sim.probed_ms <= sim.now_ms)
		take_probe();
	if (sim.world.stop_ms <= sim.now_ms)
		batch_stop(&sim.b);
}

static int64_t next_event_ms(void)
{
	int64_t next = sim.probed_ms != 0 ? sim.probed_ms : INT64_MAX;
	for (size_t i = 0; i < sim.n_flights; i++)
		next = sim.flights[i].answered_ms < next ? sim.flights[i].answered_ms : next;
	int64_t due_ms = batch_due_ms(&sim.b, sim.now_ms);
	CHECK(due_ms > sim.now_ms);
	/* With nothing in flight it must know by itself when to go on. */
	CHECK(due_ms != INT64_MAX || next != INT64_MAX);
	next = due_ms < next ? due_ms : next;
	for (size_t i = 0; i < sim.n_late; i++)
		next = sim.late[i].at_ms < next ? sim.late[i].at_ms : next;
	return next;
}

/* The end */

static void check_end(size_t index)
{
	const struct sim_row *row = &sim.rows[index];
	const struct batch_row *end = &sim.b.rows[index];
	seen.rows[end->state]++;
	switch (end->state) {
	case ROW_PENDING:
		CHECK(!"a row without an end");
		break;
	case ROW_DELIVERED:
		for (size_t i = 0; i < row->n; i++)
			CHECK(row->ops[i].accepted);
		break;
	case ROW_REJECTED:
		CHECK(is_at_fault(row) && end->error.n > 0);
		break;
	case ROW_APART:
		CHECK(row->pointed_at && !end->alone);
		break;
	case ROW_HELD:
		if (end->behind == EXTERNAL) {
			CHECK(row->held);
			break;
		}
		CHECK(end->behind >= FIRST_ID && end->behind < end->id);
		size_t before = (size_t)(end->behind - FIRST_ID);
		CHECK(rows_conflict(row, &sim.rows[before]));
		CHECK(sim.b.rows[before].state == ROW_REJECTED || sim.b.rows[before].state == ROW_APART ||
		      sim.b.rows[before].state == ROW_HELD);
		break;
	case ROW_RELEASED:
		CHECK(sim.b.stopped);
		break;
	}
}

/* A tuple is as the delivered rows left it, in id order, or as a row left it that was sent and has another end. */
static void check_tuple(int tuple)
{
	int delivered = sim.before[tuple];
	bool is_explained = false;
	for (size_t i = 0; i < sim.n; i++)
		for (size_t k = 0; k < sim.rows[i].n; k++) {
			const struct sim_op *op = &sim.rows[i].ops[k];
			int then = op->is_write ? (int)op->condition : -1;
			if (op->tuple != tuple || !op->sent)
				continue;
			if (sim.b.rows[i].state == ROW_DELIVERED)
				delivered = then;
			else
				is_explained |= then == sim.tuples[tuple];
		}
	CHECK(is_explained || sim.tuples[tuple] == delivered);
}

static void check_all(void)
{
	CHECK(sim.n_flights == 0 && sim.n_late == 0 && sim.b.in_flight == 0);
	CHECK(batch_due_ms(&sim.b, sim.now_ms) == INT64_MAX);
	CHECK(batch_next(&sim.b, sim.now_ms) == NULL);
	for (size_t i = 0; i < sim.n; i++)
		check_end(i);
	for (int tuple = 0; tuple < TUPLES; tuple++)
		check_tuple(tuple);
}

/* What the holder does when it has the turn: as a lane does. */
static bool go(void)
{
	struct request *r;
	while (sim.n_flights < sim.most_in_flight && (r = batch_next(&sim.b, sim.now_ms)) != NULL)
		send_request(r);
	if (sim.probed_ms == 0 && batch_wants_probe(&sim.b))
		sim.probed_ms = sim.now_ms + 1 + upto(30);
	return sim.probed_ms == 0 && batch_over(&sim.b, sim.now_ms);
}

static void invent(unsigned seed)
{
	static const size_t max_tuples[] = {1, 2, 3, 5, 8, 100, 100, 100};
	struct batch b = sim.b;
	memset(&sim, 0, sizeof sim);
	sim.b = b;
	sim.seed = seed;
	sim.rng.state = seed;
	sim.now_ms = 1000;
	sim.n = 1 + (size_t)upto(MOST_ROWS - 1);
	sim.most_in_flight = 1 + (size_t)upto(MOST_FLIGHTS - 1);
	bool plain = chance(30);
	sim.world = (struct world){
	    .limit = chance(15) ? 1 + (size_t)upto(3) : 100,
	    .old = chance(5),
	    .black_hole = chance(3),
	    .cannot_write = chance(20),
	    .trouble = chance(40) ? 0 : upto(20),
	    .faults = chance(40) ? 0 : upto(plain ? 30 : 12),
	    .plain = plain,
	    .stop_ms = chance(10) ? sim.now_ms + upto(500) : INT64_MAX,
	};
	struct batch_limits limits = {
	    .max_tuples = max_tuples[upto(sizeof max_tuples / sizeof *max_tuples - 1)],
	    .max_bytes = chance(20) ? 300 + (size_t)upto(1500) : 400000,
	    .settle_ms = SETTLE_MS,
	    .deadline_ms = sim.now_ms + (chance(10) ? upto(200) : 600000),
	};
	if (sim.world.black_hole)
		limits.deadline_ms = sim.now_ms + 10000;
	for (int tuple = 0; tuple < TUPLES; tuple++)
		sim.tuples[tuple] = sim.before[tuple] = chance(50) ? -1 : NONE;
	batch_init(&sim.b, sim.n, &limits);
	for (size_t i = 0; i < sim.n; i++)
		invent_row(i);
	batch_plan(&sim.b);
}

static void run(unsigned seed)
{
	enum { MOST_STEPS = 5000 };
	invent(seed);
	for (int step = 0; !go(); step++) {
		CHECK(step < MOST_STEPS);
		int64_t next = next_event_ms();
		/* Its holder also calls for reasons of its own. */
		if (chance(20))
			next = sim.now_ms + 1 + rng_upto(&sim.rng, next - sim.now_ms - 1);
		sim.now_ms = next;
		take_what_is_due();
	}
	check_all();
}

static void whatever_happens(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= HISTORIES; seed++)
		run(seed);
	batch_fini(&sim.b);
	/* The histories reach what they are for. */
	for (enum row_state s = ROW_DELIVERED; s <= ROW_RELEASED; s++)
		assert_true(seen.rows[s] > (s == ROW_APART ? HISTORIES / 100 : HISTORIES / 10));
	assert_true(seen.sent > 4 * HISTORIES);
	assert_true(seen.again > HISTORIES / 2);
	assert_true(seen.split > HISTORIES / 2);
	assert_true(seen.late > HISTORIES / 20);
	assert_true(seen.probes > HISTORIES / 20);
	assert_true(seen.lone > HISTORIES / 4);
	assert_true(seen.cut > HISTORIES / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(whatever_happens),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
