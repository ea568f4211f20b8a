#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/verdict.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { MANY = 10 };

#define NOW_MS (INT64_C(1700000000) * 1000) /* Tue, 14 Nov 2023 22:13:20 GMT */

/* Bodies as OpenFGA 1.22.1 sent them, but for those marked as read in its source, and those marked as made up: a code
 * with whatever message, or a proxy's words. */
#define E(code, message) "{\"code\":\"" code "\",\"message\":\"" message "\"}"
#define PATTERN "value does not match regex pattern \\\"^[ABCDEFGHJKMNPQRSTVWXYZ0-9]{26}$\\\""
#define STORE "01ARZ3NDEKTSV4RRFFQ69G5FAV"
#define TUPLE "user: 'user:a', relation: 'viewer', object: 'archive:1'"
#define WRITE_STORE E("validation_error", "invalid WriteRequest.StoreId: " PATTERN)
#define DIFFERENT \
	E("Aborted", \
	  "transactional write failed due to conflict: attempted to write a tuple which already exists with a " \
	  "different condition: " TUPLE)
#define EXISTS \
	E("write_failed_due_to_invalid_input", \
	  "cannot write a tuple which already exists: " TUPLE \
	  ": tuple to be written already existed or the tuple to be deleted did not " \
	  "exist")
#define MISSING \
	E("write_failed_due_to_invalid_input", \
	  "cannot delete a tuple which does not exist: " TUPLE \
	  ": tuple to be written already existed or the tuple to be deleted did not " \
	  "exist")
#define TOO_LARGE E("resource_exhausted", "grpc: received message larger than max (916950 vs. 616448)")
#define PAGE "<!DOCTYPE html>\n<html><title>Sign in</title></html>"

#define D VERDICT_DELIVERED
#define R VERDICT_RETRY
#define S VERDICT_SPLIT
#define J VERDICT_REJECTED
#define H VERDICT_HALT

struct expected {
	unsigned tuples;
	int status;
	const char *body;
	enum verdict verdict;
	enum hint hint;
	bool unknown;
	const char *in_reason;
};

/* The table of verdicts, line by line. */
/* clang-format off */
static const struct expected writes[] = {
	/* 200 {} */
	{MANY, 200, "{}", D, HINT_NONE, false, ""},
	{1, 200, " { } \n", D, HINT_NONE, false, ""},

	/* 400 validation_error about a tuple */
	{MANY, 400, E("validation_error", "Invalid tuple 'nope:1#viewer@user:a'. Reason: type 'nope' not found"), S, HINT_NONE, false, "OpenFGA answered 400 validation_error: Invalid tuple 'nope:1#viewer@user:a'. Reason: type 'nope' not found"},
	{1, 400, E("validation_error", "Invalid tuple 'nope:1#viewer@user:a'. Reason: type 'nope' not found"), J, HINT_NONE, false, "type 'nope' not found"},
	{MANY, 400, E("validation_error", "Invalid tuple 'archive:1#nope@user:a'. Reason: relation 'archive#nope' not found"), S, HINT_NONE, false, "relation 'archive#nope' not found"},
	{MANY, 400, E("validation_error", "Invalid tuple 'archive:1#parent@user:a'. Reason: type 'user' is not an allowed type restriction for 'archive#parent'"), S, HINT_NONE, false, "not an allowed type restriction"},
	{MANY, 400, E("validation_error", "Invalid tuple 'archive:1#viewer@user:a b'. Reason: the 'user' field is malformed"), S, HINT_NONE, false, "malformed"},
	{MANY, 400, E("validation_error", "invalid TupleKey.User: value length must be at most 512 bytes"), S, HINT_NONE, false, "512 bytes"},
	{MANY, 400, E("validation_error", "invalid RelationshipCondition.Name: value does not match regex pattern \\\"^[^\\\\\\\\s]{2,256}$\\\""), S, HINT_NONE, false, "RelationshipCondition.Name: value does not match regex pattern \"^[^\\\\s]{2,256}$\""},
	{MANY, 400, E("validation_error", "Invalid tuple 'archive:1#viewer@user:a (condition nope1)'. Reason: undefined condition"), S, HINT_NONE, false, "undefined condition"},
	{1, 400, E("validation_error", "Invalid tuple 'archive:1#viewer@user:a (condition not_expired)'. Reason: found invalid context parameter: x"), J, HINT_NONE, false, "found invalid context parameter: x"},
	{MANY, 400, E("validation_error", "Invalid tuple 'archive:1#viewer@user:invalid'. Reason: invalid WriteRequest.StoreId: no, a quotation"), S, HINT_NONE, false, "quotation"},

	/* 400 validation_error naming the ids, or the options */
	{MANY, 400, WRITE_STORE, H, HINT_PROBE, false, "{26}$\"; check FGA_STORE_ID"},
	{1, 400, WRITE_STORE, H, HINT_PROBE, false, "check FGA_STORE_ID"},
	{MANY, 400, E("validation_error", "invalid WriteRequest.AuthorizationModelId: " PATTERN), H, HINT_PROBE, false, "check FGA_MODEL_ID"},
	{MANY, 400, E("validation_error", "invalid on_duplicate option: x"), H, HINT_PROBE, false, "check the version of OpenFGA"},
	{MANY, 400, E("validation_error", "invalid on_missing option: probe-invalid"), H, HINT_PROBE, false, "check the version of OpenFGA"},
	/* read in its source */
	{MANY, 400, E("store_id_invalid_length", "invalid WriteRequest.StoreId: value length must be 26 runes"), H, HINT_NONE, false, "check FGA_STORE_ID"},
	{MANY, 400, E("authorization_model_id_too_long", "invalid WriteRequest.AuthorizationModelId: value length must be at most 26 bytes"), H, HINT_NONE, false, "check FGA_MODEL_ID"},

	/* 400 the model, or the store, is not there */
	{MANY, 400, E("latest_authorization_model_not_found", "No authorization models found for store '" STORE "'"), H, HINT_NONE, false, "No authorization models found for store '" STORE "'; check FGA_STORE_ID and FGA_MODEL_ID, and that the store has a model"},
	{1, 400, E("authorization_model_not_found", "Authorization Model '" STORE "' not found"), H, HINT_NONE, false, "check FGA_STORE_ID and FGA_MODEL_ID"},

	/* 400 relay's own mistakes */
	{MANY, 400, E("cannot_allow_duplicate_tuples_in_one_request", "duplicate tuple in write: " TUPLE), S, HINT_BUG, false, "duplicate tuple in write"},
	{1, 400, E("invalid_write_input", "Invalid input. Make sure you provide at least one write, or at least one delete"), J, HINT_BUG, false, "at least one write"},
	{MANY, 400, E("validation_error", "invalid WriteRequestWrites.TupleKeys: value must contain at least 1 item(s)"), S, HINT_BUG, false, "at least 1 item"},
	{MANY, 400, E("validation_error", "malformed JSON"), S, HINT_BUG, false, "malformed JSON"},
	{MANY, 400, E("validation_error", "invalid character ']' looking for beginning of value"), S, HINT_BUG, false, "invalid character"},
	{MANY, 400, E("validation_error", "syntax error (line 1:11): unexpected token 5"), S, HINT_BUG, false, "syntax error"},
	{1, 400, E("validation_error", "(line 1:134): invalid google.protobuf.Value: 1e400"), J, HINT_BUG, false, "1e400"},

	/* 400 exceeded_entity_limit */
	{MANY, 400, E("exceeded_entity_limit", "The number of write operations exceeds the allowed limit of 100"), S, HINT_SIZE, false, "limit of 100"},

	/* 400 write_failed_due_to_invalid_input, of a server before 1.10 */
	{MANY, 400, EXISTS, S, HINT_OLD, false, "already exists"},
	{MANY, 400, MISSING, S, HINT_OLD, false, "does not exist"},
	{1, 400, EXISTS, D, HINT_EXISTS, false, ""},
	{1, 400, MISSING, D, HINT_NONE, false, ""},
	{1, 400, E("write_failed_due_to_invalid_input", "something else"), J, HINT_OLD, false, "something else"}, /* made up */

	/* A server that shuts down; the first read in its source */
	{MANY, 400, E("cancelled", "Request Cancelled"), R, HINT_NONE, true, "cancelled: Request Cancelled"},
	{MANY, 500, E("unavailable", "error reading from server: EOF"), R, HINT_NONE, true, "unavailable: error reading from server: EOF"},

	/* 401 */
	{MANY, 401, E("bearer_token_missing", "missing bearer token"), H, HINT_AUTH, false, "missing bearer token; check FGA_API_TOKEN"},
	{MANY, 401, E("unauthenticated", "unauthenticated"), H, HINT_AUTH, false, "check FGA_API_TOKEN"},
	/* made up */
	{MANY, 401, E("invalid_claims", "invalid claims"), H, HINT_AUTH, false, "check FGA_API_TOKEN"},
	{MANY, 401, PAGE, H, HINT_AUTH, false, "check FGA_API_TOKEN"},
	{MANY, 401, E("forbidden", "the principal is not authorized to perform the action"), H, HINT_NONE, false, "what FGA_API_TOKEN or FGA_CLIENT_ID may do"},

	/* 403, 404; made up but for undefined_endpoint and unimplemented */
	{MANY, 403, E("forbidden", "no"), H, HINT_NONE, false, "what FGA_API_TOKEN or FGA_CLIENT_ID may do"},
	{MANY, 403, "", H, HINT_NONE, false, "OpenFGA answered 403 with an empty body; check"},
	{MANY, 404, E("undefined_endpoint", "Not Found"), H, HINT_NONE, false, "OpenFGA answered 404 undefined_endpoint: Not Found; check FGA_API_URL"},
	{MANY, 404, E("unimplemented", "Method Not Allowed"), H, HINT_NONE, false, "check FGA_API_URL"},
	{MANY, 404, E("store_id_not_found", "Store ID not found"), H, HINT_NONE, false, "check FGA_STORE_ID"},
	{MANY, 404, "404 page not found\n", H, HINT_NONE, false, "OpenFGA answered 404, not as OpenFGA does: 404 page not found; check FGA_API_URL"},

	/* 409; the second read in its source */
	{MANY, 409, E("Aborted", "transactional write failed due to conflict: one or more tuples to write were inserted by another transaction"), R, HINT_RACE, false, "inserted by another transaction"},
	{1, 409, E("Aborted", "transactional write failed due to conflict: one or more tuples to delete were deleted by another transaction"), R, HINT_RACE, false, "deleted by another transaction"},
	{MANY, 409, DIFFERENT, S, HINT_NONE, false, "different condition"},
	{1, 409, DIFFERENT, J, HINT_NONE, false, "different condition"},

	/* 413, of a proxy; made up */
	{MANY, 413, "<html>413 Request Entity Too Large</html>", S, HINT_SIZE, false, "413"},
	{1, 413, "", J, HINT_SIZE, false, "413"},

	/* 429, 502, 503, 504; made up */
	{MANY, 429, E("rate_limit_exceeded", "slow down"), R, HINT_SLOWER, false, "slow down"},
	{MANY, 429, "", R, HINT_SLOWER, false, "429"},
	{MANY, 502, "<html>502 Bad Gateway</html>", R, HINT_NONE, true, "OpenFGA answered 502, not as OpenFGA does: <html>502 Bad Gateway</html>"},
	{MANY, 503, "upstream connect error", R, HINT_NONE, true, "upstream connect error"},
	{MANY, 504, "", R, HINT_NONE, true, "504"},

	/* 500; "throttled" read in its source */
	{MANY, 500, TOO_LARGE, S, HINT_SIZE, false, "larger than max"},
	{1, 500, TOO_LARGE, J, HINT_SIZE, false, "larger than max"},
	{MANY, 500, E("resource_exhausted", "transaction was throttled by the datastore"), R, HINT_SLOWER, true, "throttled"},
	{MANY, 500, E("deadline_exceeded", "Request Deadline Exceeded"), R, HINT_SLOWER, true, "Deadline"},
	{1, 500, E("internal_error", "Internal Server Error"), R, HINT_PROBE, true, "internal_error: Internal Server Error"},
	{MANY, 500, E("data_loss", "x"), R, HINT_PROBE, true, "data_loss"}, /* read in its source */
	{MANY, 500, "Internal Server Error", R, HINT_NONE, true, "not as OpenFGA does"},
	{MANY, 599, "", R, HINT_NONE, true, "599"},

	/* 3xx, 2xx that is not {}, what is not JSON; made up */
	{MANY, 301, PAGE, R, HINT_NONE, false, "check FGA_API_URL"},
	{MANY, 200, PAGE, R, HINT_NONE, true, "OpenFGA answered 200, not as OpenFGA does: <!DOCTYPE html> <html><title>Sign in</title></html>; check FGA_API_URL"},
	{MANY, 200, "", R, HINT_NONE, true, "with an empty body"},
	{MANY, 200, "null", R, HINT_NONE, true, "not as OpenFGA does: null"},
	{MANY, 200, "[]", R, HINT_NONE, true, "not as OpenFGA does: []"},
	{MANY, 200, "{\"error\":\"log in\"}", R, HINT_NONE, true, "log in"},
	{MANY, 200, "{} x", R, HINT_NONE, true, "{} x"},
	{MANY, 200, E("validation_error", "x"), R, HINT_NONE, true, "validation_error"},
	{MANY, 204, "{}", R, HINT_NONE, true, "204"},
	{MANY, 400, PAGE, R, HINT_NONE, false, "not as OpenFGA does: <!DOCTYPE html>"},
	{1, 400, "{\"Code\":\"validation_error\"}", R, HINT_NONE, false, "not as OpenFGA does"},
	{MANY, 400, "{\"code\":3,\"message\":\"x\"}", R, HINT_NONE, false, "not as OpenFGA does"},
	{MANY, 409, PAGE, R, HINT_NONE, false, "check FGA_API_URL"},
	{MANY, 418, E("teapot", "short and stout"), R, HINT_NONE, false, "OpenFGA answered 418 teapot: short and stout"},
};

/* GET /stores/{id} and GET /stores/{id}/authorization-models/{id}. The 404 of a model, forbidden, 403, pages and what comes from
 * 418 and 429 on are made up; cancelled and internal_error are as for writes. */
static const struct expected checks[] = {
	{0, 200, "{\"id\":\"" STORE "\", \"name\":\"test\", \"created_at\":\"2026-11-29T14:49:18.419795590Z\", \"updated_at\":\"2026-11-29T14:49:18.419795590Z\", \"deleted_at\":null}", D, HINT_NONE, false, ""},
	{0, 200, "{\"stores\":[], \"continuation_token\":\"\"}", D, HINT_NONE, false, ""},
	{0, 200, "{}", D, HINT_NONE, false, ""},
	{0, 200, "[]", R, HINT_NONE, false, "WHAT: OpenFGA answered 200, not as OpenFGA does: []; check FGA_API_URL"},
	{0, 200, PAGE, R, HINT_NONE, false, "WHAT: OpenFGA answered 200, not as OpenFGA does: <!DOCTYPE html>"},
	{0, 200, "", R, HINT_NONE, false, "WHAT: OpenFGA answered 200 with an empty body"},
	{0, 404, E("store_id_not_found", "Store ID not found"), H, HINT_NONE, false, "WHAT does not exist at this OpenFGA: check FGA_STORE_ID; if the store was deleted, make one and its model, name them, restart relay, and `relay reconcile --repair` brings the tuples back"},
	{0, 400, E("authorization_model_not_found", "Authorization Model '" STORE "' not found"), H, HINT_NONE, false, "WHAT does not exist in this store: check FGA_MODEL_ID"},
	{0, 404, E("authorization_model_not_found", "x"), H, HINT_NONE, false, "WHAT does not exist in this store: check FGA_MODEL_ID"},
	{0, 400, E("validation_error", "invalid GetStoreRequest.StoreId: " PATTERN), H, HINT_NONE, false, "WHAT is not what an id looks like: check FGA_STORE_ID"},
	{0, 400, E("validation_error", "invalid ReadAuthorizationModelRequest.Id: " PATTERN), H, HINT_NONE, false, "WHAT is not what an id looks like: check FGA_MODEL_ID"},
	{0, 400, E("validation_error", "invalid ReadAuthorizationModelRequest.StoreId: " PATTERN), H, HINT_NONE, false, "check FGA_STORE_ID and FGA_MODEL_ID"},
	{0, 400, E("cancelled", "Request Cancelled"), R, HINT_NONE, false, "Request Cancelled"},
	{0, 401, E("bearer_token_missing", "missing bearer token"), H, HINT_AUTH, false, "WHAT: OpenFGA answered 401 bearer_token_missing: missing bearer token; check FGA_API_TOKEN"},
	{0, 401, E("forbidden", "x"), H, HINT_NONE, false, "what FGA_API_TOKEN or FGA_CLIENT_ID may do"},
	{0, 403, "", H, HINT_NONE, false, "WHAT: OpenFGA answered 403"},
	{0, 404, E("undefined_endpoint", "Not Found"), H, HINT_NONE, false, "check FGA_API_URL"},
	{0, 404, PAGE, H, HINT_NONE, false, "check FGA_API_URL"},
	{0, 400, PAGE, R, HINT_NONE, false, "check FGA_API_URL"},
	{0, 429, "", R, HINT_SLOWER, false, "429"},
	{0, 500, E("internal_error", "Internal Server Error"), R, HINT_NONE, false, "WHAT: OpenFGA answered 500 internal_error"},
	{0, 503, "", R, HINT_NONE, false, "503"},
	{0, 302, "", R, HINT_NONE, false, "check FGA_API_URL"},
	{0, 418, E("teapot", "x"), R, HINT_NONE, false, "418 teapot"},
};

/* A token endpoint's: RFC 6749, section 5.2; made up after the documents of Auth0 and Keycloak. */
#define O(error, description) "{\"error\":\"" error "\",\"error_description\":\"" description "\"}"
static const struct expected tokens[] = {
	{0, 200, "{\"access_token\":\"x\"}", D, HINT_NONE, false, ""},
	{0, 200, "{}", D, HINT_NONE, false, ""},
	{0, 200, O("invalid_client", "no"), H, HINT_AUTH, false, "no token: the issuer answered 200 invalid_client: no; check FGA_API_TOKEN_ISSUER, FGA_CLIENT_ID, FGA_CLIENT_SECRET and FGA_API_AUDIENCE"},
	{0, 200, PAGE, R, HINT_NONE, false, "no token: what FGA_API_TOKEN_ISSUER names does not answer as an issuer of tokens does: check FGA_API_TOKEN_ISSUER"},
	{0, 200, "access_token=geheim", R, HINT_NONE, false, "check FGA_API_TOKEN_ISSUER"},
	{0, 204, "", R, HINT_NONE, false, "check FGA_API_TOKEN_ISSUER"},
	{0, 302, "", R, HINT_NONE, false, "check FGA_API_TOKEN_ISSUER"},
	{0, 400, O("invalid_request", "no audience"), H, HINT_AUTH, false, "400 invalid_request: no audience; check FGA_API_TOKEN_ISSUER, FGA_CLIENT_ID"},
	{0, 400, O("unsupported_grant_type", "no"), H, HINT_AUTH, false, "FGA_API_AUDIENCE"},
	{0, 400, O("invalid_client", "no"), H, HINT_AUTH, false, "check FGA_CLIENT_ID and FGA_CLIENT_SECRET"},
	{0, 400, O("invalid_scope", "no"), H, HINT_AUTH, false, "check FGA_API_SCOPES"},
	{0, 400, O("invalid_target", "no"), H, HINT_AUTH, false, "check FGA_API_AUDIENCE"},
	{0, 400, PAGE, H, HINT_AUTH, false, "not as the issuer does: <!DOCTYPE"},
	{0, 401, O("invalid_client", "Invalid client"), H, HINT_AUTH, false, "no token: the issuer answered 401 invalid_client: Invalid client; check FGA_CLIENT_ID and FGA_CLIENT_SECRET"},
	{0, 401, O("access_denied", "Unauthorized"), H, HINT_AUTH, false, "check FGA_CLIENT_ID and FGA_CLIENT_SECRET"},
	{0, 401, "", H, HINT_AUTH, false, "check FGA_CLIENT_ID and FGA_CLIENT_SECRET"},
	{0, 403, O("access_denied", "no"), H, HINT_AUTH, false, "check FGA_API_AUDIENCE, and what FGA_CLIENT_ID may do"},
	{0, 404, PAGE, H, HINT_AUTH, false, "check FGA_API_TOKEN_ISSUER"},
	{0, 405, "", H, HINT_AUTH, false, "check FGA_API_TOKEN_ISSUER"},
	{0, 418, "", H, HINT_AUTH, false, "FGA_API_TOKEN_ISSUER"},
	{0, 429, O("too_many_requests", "no"), R, HINT_NONE, false, "no token: the issuer answered 429 too_many_requests: no"},
	{0, 500, O("server_error", "no"), R, HINT_NONE, false, "no token: the issuer answered 500 server_error: no"},
	{0, 502, PAGE, R, HINT_NONE, false, "no token: the issuer answered 502"},
	{0, 503, "", R, HINT_NONE, false, "no token: the issuer answered 503 with an empty body"},
};
/* clang-format on */

static struct answer answered(int status, const char *body)
{
	return (struct answer){.transport = TRANSPORT_ANSWERED, .status = status, .body = str_of(body)};
}

static void assert_judged(const struct judgement *j, const struct expected *x)
{
	if (j->verdict != x->verdict || j->hint != x->hint || j->unknown != x->unknown)
		fail_msg("%d %s: %s, hint %d, unknown %d", x->status, x->body, verdict_name(j->verdict), (int)j->hint,
		         j->unknown);
	if (strstr(j->reason, x->in_reason) == NULL || (x->verdict == D && j->reason[0] != '\0'))
		fail_msg("%d %s: %s", x->status, x->body, j->reason);
	assert_true(str_is_utf8(str_of(j->reason)));
	assert_null(strchr(j->reason, '\n'));
	/* Nobody has to check anything because a server is down. */
	assert_true(x->status < 500 || strstr(j->reason, "check") == NULL);
	assert_int_equal(j->retry_after_ms, 0);
	assert_int_equal(j->tuple_limit, strstr(x->body, "limit of 100") ? 100 : 0);
}

static void judges_writes(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(writes); i++) {
		struct answer a = answered(writes[i].status, writes[i].body);
		struct judgement j;
		verdict_write(&a, writes[i].tuples, NOW_MS, &j);
		assert_judged(&j, &writes[i]);
	}
}

static void judges_checks(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(checks); i++) {
		struct answer a = answered(checks[i].status, checks[i].body);
		struct judgement j;
		verdict_check(&a, "WHAT", NOW_MS, &j);
		assert_judged(&j, &checks[i]);
	}
}

static void judges_tokens(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(tokens); i++) {
		struct answer a = answered(tokens[i].status, tokens[i].body);
		struct judgement j;
		verdict_token(&a, NOW_MS, &j);
		assert_judged(&j, &tokens[i]);
		assert_null(strstr(j.reason, "geheim"));
	}
}

static void judges_what_has_no_token(void **state)
{
	(void)state;
	static const enum verdict verdicts[] = {H, R};
	for (size_t i = 0; i < COUNT(verdicts); i++) {
		struct judgement token = {.verdict = verdicts[i], .retry_after_ms = 7, .reason = "no token: why"};
		struct answer a = {.transport = TRANSPORT_NO_TOKEN, .token = &token};
		struct judgement j;
		for (int write = 0; write < 2; write++) {
			if (write)
				verdict_write(&a, 1, NOW_MS, &j);
			else
				verdict_check(&a, "WHAT", NOW_MS, &j);
			assert_int_equal(j.verdict, verdicts[i]);
			assert_false(j.unknown);
			assert_int_equal(j.retry_after_ms, 7);
			assert_string_equal(j.reason, "no token: why");
		}
	}
}

/* What was sent may come back, in whatever form. */
static void shows_no_secret(void **state)
{
	(void)state;
	static const char *const bodies[] = {
	    "geheim/1 geheim/2",
	    E("x", "you sent geheim/1 and geheim/2"),
	    E("x", "you sent geheim\\/1 and \\u0067eheim/2"),
	    E("geheim/1", "geheim/2"),
	    O("geheim/1", "geheim/2"),
	    "<p>geheim%2F1</p>geheim%2f2",
	    "{\"x\":\"geheim\\/1\",\"y\":\"geheim\\u002f2\"}",
	};
	struct judgement j;
	for (size_t i = 0; i < COUNT(bodies); i++) {
		struct answer a = answered(400, bodies[i]);
		a.secrets[0] = "geheim/1";
		a.secrets[1] = "geheim/2";
		verdict_write(&a, MANY, NOW_MS, &j);
		assert_null(strstr(j.reason, "geheim"));
		assert_non_null(strstr(j.reason, "*****"));
		verdict_token(&a, NOW_MS, &j);
		assert_null(strstr(j.reason, "geheim"));
	}
	/* Where a reason is cut, it is not cut in two. */
	char body[512];
	snprintf(body, sizeof body, "%0115d geheim/1", 0);
	struct answer a = answered(502, body);
	a.secrets[0] = "geheim/1";
	verdict_check(&a, "WHAT", NOW_MS, &j);
	assert_null(strstr(j.reason, "ge"));
	a = answered(302, "");
	a.location = STR("http://h/geheim/1");
	a.secrets[1] = "geheim/1";
	verdict_check(&a, "WHAT", NOW_MS, &j);
	assert_non_null(strstr(j.reason, "http://h/********"));
}

static void judges_transport(void **state)
{
	(void)state;
	struct answer a = {.transport = TRANSPORT_NOT_SENT, .error = "Couldn't connect\nto server"};
	struct judgement j;
	verdict_write(&a, 1, NOW_MS, &j);
	assert_int_equal(j.verdict, R);
	assert_false(j.unknown);
	assert_string_equal(j.reason, "OpenFGA cannot be reached: Couldn't connect to server");

	a = (struct answer){.transport = TRANSPORT_LOST, .error = "Timeout was reached"};
	verdict_write(&a, 1, NOW_MS, &j);
	assert_int_equal(j.verdict, R);
	assert_int_equal(j.hint, HINT_NONE);
	assert_true(j.unknown);
	assert_string_equal(j.reason, "no answer from OpenFGA: Timeout was reached");

	verdict_check(&a, "store X", NOW_MS, &j);
	assert_int_equal(j.verdict, R);
	assert_false(j.unknown);
	assert_string_equal(j.reason, "store X: no answer from OpenFGA: Timeout was reached");

	verdict_token(&a, NOW_MS, &j);
	assert_int_equal(j.verdict, R);
	assert_false(j.unknown);
	assert_string_equal(j.reason, "no token: no answer from the issuer: Timeout was reached");
}

static void heeds_retry_after(void **state)
{
	(void)state;
	static const struct {
		const char *value;
		int64_t ms;
	} cases[] = {
	    {"", 0},
	    {"0", 0},
	    {"1", 1000},
	    {" 7\t", 7000},
	    {"300", 300000},
	    {"301", VERDICT_MAX_RETRY_AFTER_MS},
	    {"86400", VERDICT_MAX_RETRY_AFTER_MS},
	    {"31622400", VERDICT_MAX_RETRY_AFTER_MS}, /* a year of 366 days */
	    {"31622401", 0},
	    {"999999999999", 0},
	    {"99999999999999999999999999", 0},
	    {"-5", 0},
	    {"+5", 0},
	    {"1.5", 0},
	    {"5s", 0},
	    {"5 6", 0},
	    {"soon", 0},
	    {"Tue, 14 Nov 2023 22:13:30 GMT", 10000},
	    {"Tuesday, 14-Nov-23 22:14:20 GMT", 60000},
	    {"Tue Nov 14 22:13:21 2023", 1000},
	    {"Tue, 14 Nov 2023 23:13:20 GMT", VERDICT_MAX_RETRY_AFTER_MS},
	    {"Tue, 14 Nov 2023 22:13:19 GMT", 0},
	    {"Thu, 01 Jan 1970 00:00:00 GMT", 0},
	    {"Sun, 14 Nov 2123 22:13:20 GMT", 0},
	    {"Tue, 14 Nov 2023 22:13:30 CET", 0},
	    {"Tue, 14 Nov 2023 22:13:30 GMT and more", 0},
	    {"Tue, 99 Nov 2023 22:13:30 GMT", 0},
	    {"an endless and meaningless text that is longer than any date could be", 0},
	};
	static const int statuses[] = {429, 502, 503, 504};
	struct judgement j;
	for (size_t i = 0; i < COUNT(cases); i++) {
		for (size_t k = 0; k < COUNT(statuses); k++) {
			struct answer a = answered(statuses[k], "");
			a.retry_after = str_of(cases[i].value);
			verdict_write(&a, MANY, NOW_MS, &j);
			assert_int_equal(j.verdict, R);
			if (j.retry_after_ms != cases[i].ms)
				fail_msg("%s: %lld", cases[i].value, (long long)j.retry_after_ms);
			verdict_check(&a, "WHAT", NOW_MS, &j);
			assert_int_equal(j.retry_after_ms, cases[i].ms);
		}
	}
	struct answer a = answered(404, "");
	a.retry_after = STR("7");
	verdict_write(&a, MANY, NOW_MS, &j);
	assert_int_equal(j.retry_after_ms, 0);
	a = answered(429, "");
	a.retry_after = STR("7\0");
	verdict_write(&a, MANY, NOW_MS, &j);
	assert_int_equal(j.retry_after_ms, 0);
}

static void names_a_redirects_target(void **state)
{
	(void)state;
	struct answer a = answered(307, "<html>");
	struct judgement j;
	a.location = STR("https://sso.example/login?state=s3cret#token");
	verdict_write(&a, MANY, NOW_MS, &j);
	assert_int_equal(j.verdict, R);
	assert_string_equal(j.reason,
	                    "OpenFGA answered 307, a redirect to https://sso.example/login; check FGA_API_URL");
}

static void reads_the_tuple_limit(void **state)
{
	(void)state;
	static const struct {
		const char *message;
		unsigned limit;
	} cases[] = {
	    {"The number of write operations exceeds the allowed limit of 100", 100},
	    {"The number of write operations exceeds the allowed limit of 7.", 7},
	    {"The number of write operations exceeds the allowed limit of ", 0},
	    {"The number of write operations exceeds the allowed limit of many", 0},
	    {"The number of write operations exceeds the allowed limit", 0},
	    {"limit of 99999999999999999999", 999999},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		char body[256];
		struct judgement j;
		snprintf(body, sizeof body, E("exceeded_entity_limit", "%s"), cases[i].message);
		struct answer a = answered(400, body);
		verdict_write(&a, MANY, NOW_MS, &j);
		assert_int_equal(j.hint, HINT_SIZE);
		assert_int_equal(j.tuple_limit, cases[i].limit);
	}
}

/* Only the beginning of a long body is there: the code stands in it, and the message's start. */
static void reads_truncated_bodies(void **state)
{
	(void)state;
	static const struct {
		int status;
		const char *body;
		enum verdict write;
		enum verdict check;
	} cases[] = {
	    {400, "{\"code\":\"validation_error\",\"message\":\"Invalid tuple 'archive:1#viewer@us", S, H},
	    {400, "{\"code\":\"validation_error\",\"message\":\"Invalid tuple 'archive:1#viewer@\xc3", S, H},
	    {409,
	     "{\"code\":\"Aborted\",\"message\":\"transactional write failed due to conflict: attempted to write a "
	     "tuple "
	     "which already exists with a different condition: us",
	     S, R},
	    {400, "{\"code\":\"authorization_model_not_found\",\"mess", H, H},
	    {400, "{\"cod", R, R},
	    {200, "{\"authorization_model\":{\"id\":\"0", R, D},
	    {200, "{", R, D},
	    {200, "{}   ", R, D},
	    {200, "<html>", R, R},
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct answer a = answered(cases[i].status, cases[i].body);
		struct judgement j;
		a.truncated = true;
		verdict_write(&a, MANY, NOW_MS, &j);
		if (j.verdict != cases[i].write)
			fail_msg("write: %s: %s", cases[i].body, verdict_name(j.verdict));
		assert_true(str_is_utf8(str_of(j.reason)));
		verdict_check(&a, "WHAT", NOW_MS, &j);
		if (j.verdict != cases[i].check)
			fail_msg("check: %s: %s", cases[i].body, verdict_name(j.verdict));
	}
}

static void keeps_reasons_short_and_clean(void **state)
{
	(void)state;
	static char body[64 * 1024];
	struct judgement j;
	memset(body, '\xff', sizeof body - 1);
	struct answer a = answered(200, body);
	verdict_write(&a, MANY, NOW_MS, &j);
	assert_true(str_is_utf8(str_of(j.reason)));
	assert_true(strlen(j.reason) < 250);
	assert_non_null(strstr(j.reason, "\xe2\x80\xa6; check FGA_API_URL"));

	/* A long message does not push the advice out. */
	struct buf long_body = {0};
	buf_add_text(&long_body, "{\"code\":\"validation_error\",\"message\":\"invalid WriteRequest.StoreId: ");
	for (int i = 0; i < 1000; i++)
		buf_add_text(&long_body, "\xc3\xa9");
	buf_add_text(&long_body, "\"}");
	a = answered(400, long_body.p);
	verdict_write(&a, MANY, NOW_MS, &j);
	assert_true(str_is_utf8(str_of(j.reason)));
	assert_int_equal(j.verdict, H);
	assert_non_null(strstr(j.reason, "\xe2\x80\xa6; check FGA_STORE_ID"));
	buf_free(&long_body);

	/* A long name is cut, and the reason with it, between characters. */
	memcpy(body, "xx", 2);
	for (size_t i = 2; i < 2002; i += 2)
		memcpy(body + i, "\xc3\xa9", 2);
	body[2002] = '\0';
	a = answered(403, "");
	verdict_check(&a, body, NOW_MS, &j);
	assert_true(str_is_utf8(str_of(j.reason)));
	assert_true(strlen(j.reason) > 500);
}

static void names_verdicts(void **state)
{
	(void)state;
	static const char *const names[] = {"delivered", "retry", "split", "rejected", "halt"};
	assert_int_equal(COUNT(names), VERDICT_COUNT);
	for (int i = 0; i < VERDICT_COUNT; i++)
		assert_string_equal(verdict_name((enum verdict)i), names[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(judges_writes),
	    cmocka_unit_test(judges_checks),
	    cmocka_unit_test(judges_tokens),
	    cmocka_unit_test(judges_what_has_no_token),
	    cmocka_unit_test(shows_no_secret),
	    cmocka_unit_test(judges_transport),
	    cmocka_unit_test(heeds_retry_after),
	    cmocka_unit_test(names_a_redirects_target),
	    cmocka_unit_test(reads_the_tuple_limit),
	    cmocka_unit_test(reads_truncated_bodies),
	    cmocka_unit_test(keeps_reasons_short_and_clean),
	    cmocka_unit_test(names_verdicts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
