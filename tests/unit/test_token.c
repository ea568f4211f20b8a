#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/token.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define WALL_MS (INT64_C(1700000000) * 1000)

static struct token token;
static struct rng rng;
static struct judgement j;

static int begin(void **state)
{
	(void)state;
	token = (struct token){0};
	rng.state = 1;
	return 0;
}

static int end(void **state)
{
	(void)state;
	token_fini(&token);
	return 0;
}

static struct answer answered(int status, const char *body)
{
	return (struct answer){.transport = TRANSPORT_ANSWERED, .status = status, .body = str_of(body)};
}

/* A fetch that begins and ends at these moments. */
static enum verdict fetch(int status, const char *body, int64_t asked_ms, int64_t now_ms)
{
	struct answer a = answered(status, body);
	token_asked(&token, asked_ms);
	assert_int_equal(token_due_ms(&token), INT64_MAX);
	token_answered(&token, &a, now_ms, WALL_MS, &rng, &j);
	assert_false(token.fetching);
	return j.verdict;
}

static void get(const char *body, int64_t now_ms)
{
	assert_int_equal(fetch(200, body, now_ms, now_ms), VERDICT_DELIVERED);
}

static void knows_the_address(void **state)
{
	static const struct {
		const char *issuer;
		const char *url;
	} cases[] = {
	    {"issuer.example", "https://issuer.example/oauth/token"},
	    {"issuer.example/", "https://issuer.example/oauth/token"},
	    {"issuer.example:8443/realms/x/token", "https://issuer.example:8443/realms/x/token"},
	    {"http://127.0.0.1:80", "http://127.0.0.1:80/oauth/token"},
	    {"http://127.0.0.1:80/", "http://127.0.0.1:80/oauth/token"},
	    {"https://issuer.example/t", "https://issuer.example/t"},
	    {"https://issuer.example/t/", "https://issuer.example/t/"},
	};
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct buf url = {0};
		token_url(cases[i].issuer, &url);
		assert_string_equal(url.p, cases[i].url);
		buf_free(&url);
	}
}

static void asks_by_a_form(void **state)
{
	struct token_client client = {.issuer = "x", .id = "relay-1_a.b~", .secret = "a b&c=d+e/f%\xc3\xa9"};
	struct buf form = {0};
	(void)state;
	token_form(&client, &form);
	assert_string_equal(form.p, "grant_type=client_credentials&client_id=relay-1_a.b~"
	                            "&client_secret=a%20b%26c%3Dd%2Be%2Ff%25%C3%A9");
	buf_clear(&form);
	client =
	    (struct token_client){.id = "i", .secret = "s", .audience = "https://fga.example/", .scopes = "read write"};
	token_form(&client, &form);
	assert_string_equal(form.p, "grant_type=client_credentials&client_id=i&client_secret=s"
	                            "&audience=https%3A%2F%2Ffga.example%2F&scope=read%20write");
	buf_free(&form);
}

static void reads_what_is_granted(void **state)
{
	static const struct {
		const char *body;
		const char *value;
		int64_t lifetime_ms;
	} cases[] = {
	    {"{\"access_token\":\"abc.DEF-_~+/=\",\"token_type\":\"Bearer\",\"expires_in\":3600}",
	     "abc.DEF-_~+/=", 3600000},
	    {"{\"expires_in\":1,\"token_type\":\"bearer\",\"access_token\":\"x\"}", "x", 1000},
	    {"{\"access_token\":\"x\"}", "x", 300000},
	    {"{\"access_token\":\"x\",\"expires_in\":null,\"token_type\":null}", "x", 300000},
	    {"{\"access_token\":\"x\",\"expires_in\":\"7200\"}", "x", 7200000},
	    {"{\"access_token\":\"x\",\"expires_in\":1.5}", "x", 1500},
	    {"{\"access_token\":\"x\",\"expires_in\":1e3}", "x", 1000000},
	    {"{\"access_token\":\"x\",\"expires_in\":1000000000}", "x", INT64_C(1000000000000)},
	    {" {\"scope\":\"a\",\"more\":{\"expires_in\":\"no\"},\"access_token\":\"a\\/b\"}\n", "a/b", 300000},
	};
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		get(cases[i].body, 1000);
		assert_string_equal(j.reason, "");
		assert_string_equal(token.value, cases[i].value);
		assert_int_equal(token.generation, i + 1);
		assert_true(token_is_good(&token, 1000 + cases[i].lifetime_ms - 1));
		assert_false(token_is_good(&token, 1000 + cases[i].lifetime_ms));
	}
}

static void refuses_nonsense(void **state)
{
	static const struct {
		const char *body;
		const char *in_reason;
	} cases[] = {
	    {"{}", "no access_token"},
	    {"{\"access_token\":\"\"}", "an access_token that cannot be sent"},
	    {"{\"access_token\":null}", "no access_token"},
	    {"{\"access_token\":7}", "no access_token"},
	    {"{\"access_token\":\"geheim\\r\\nX: y\"}", "an access_token that cannot be sent"},
	    {"{\"access_token\":\"ge heim\"}", "an access_token that cannot be sent"},
	    {"{\"access_token\":\"geheim\xc3\xa9\"}", "an access_token that cannot be sent"},
	    {"{\"access_token\":\"geheim\",\"token_type\":\"mac\"}", "a token_type other than Bearer"},
	    {"{\"access_token\":\"geheim\",\"token_type\":\"bearers\"}", "a token_type other than Bearer"},
	    {"{\"access_token\":\"geheim\",\"expires_in\":0}", "an expires_in that is not a number of seconds"},
	    {"{\"access_token\":\"geheim\",\"expires_in\":-1}", "an expires_in that is not a number of seconds"},
	    {"{\"access_token\":\"geheim\",\"expires_in\":0.9}", "an expires_in that is not a number of seconds"},
	    {"{\"access_token\":\"geheim\",\"expires_in\":1e300}", "an expires_in that is not a number of seconds"},
	    {"{\"access_token\":\"geheim\",\"expires_in\":1000000001}",
	     "an expires_in that is not a number of seconds"},
	    {"{\"access_token\":\"geheim\",\"expires_in\":true}", "an expires_in that is not a number of seconds"},
	    {"{\"access_token\":\"geheim\",\"expires_in\":{}}", "an expires_in that is not a number of seconds"},
	    {"{\"access_token\":\"geheim\",\"expires_in\":\"\"}", "an expires_in that is not a number of seconds"},
	    {"{\"access_token\":\"geheim\",\"expires_in\":\"soon\"}", "an expires_in that is not a number of seconds"},
	    {"{\"access_token\":\"geheim\",\"expires_in\":\"60s\"}", "an expires_in that is not a number of seconds"},
	    {"{\"access_token\":\"geheim\",\"expires_in\":\" 60\"}", "an expires_in that is not a number of seconds"},
	    {"{\"access_token\":\"geheim\",\"expires_in\":\"nan\"}", "an expires_in that is not a number of seconds"},
	    {"{\"access_token\":\"geheim\",\"expires_in\":1.00000000000000000000000}",
	     "an expires_in that is not a number of seconds"},
	};
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_int_equal(fetch(200, cases[i].body, 0, 0), VERDICT_HALT);
		if (strstr(j.reason, cases[i].in_reason) == NULL)
			fail_msg("%s: %s", cases[i].body, j.reason);
		assert_non_null(strstr(j.reason, "check FGA_API_TOKEN_ISSUER"));
		assert_null(strstr(j.reason, "geheim"));
		assert_false(token_is_good(&token, 0));
	}
}

static void lives_from_when_it_was_asked_for(void **state)
{
	(void)state;
	assert_false(token_is_good(&token, 0));
	assert_int_equal(token_due_ms(&token), INT64_MAX);
	assert_int_equal(fetch(200, "{\"access_token\":\"x\",\"expires_in\":10}", 1000, 3000), VERDICT_DELIVERED);
	assert_true(token_is_good(&token, 10999));
	assert_false(token_is_good(&token, 11000));
	assert_int_equal(fetch(200, "{\"access_token\":\"y\",\"expires_in\":2}", 11000, 13000), VERDICT_RETRY);
	assert_string_equal(j.reason, "no token: the issuer's answer took longer than the token lives");
	assert_false(token_is_good(&token, 13000));
	assert_int_equal(fetch(200, "{\"access_token\":\"y\",\"expires_in\":2}", 11000, 12999), VERDICT_DELIVERED);
	assert_true(token_is_good(&token, 12999));
}

static void is_renewed_a_tenth_before_its_end(void **state)
{
	static const struct {
		int seconds;
		int64_t due_ms;
	} cases[] = {{1, 900}, {10, 9000}, {300, 270000}, {600, 540000}, {3600, 3540000}, {86400, 86340000}};
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		char body[64];
		snprintf(body, sizeof body, "{\"access_token\":\"x\",\"expires_in\":%d}", cases[i].seconds);
		get(body, 5000);
		assert_int_equal(token_due_ms(&token), 5000 + cases[i].due_ms);
	}
}

static void serves_to_its_end_when_it_cannot_be_renewed(void **state)
{
	(void)state;
	get("{\"access_token\":\"x\",\"expires_in\":10}", 0);
	int64_t now_ms = token_due_ms(&token);
	int64_t longest_ms = 0;
	unsigned tries = 0;
	for (; now_ms < 10000; tries++) {
		int64_t before_ms = now_ms;
		assert_int_equal(fetch(503, "", now_ms, now_ms), VERDICT_RETRY);
		assert_true(token_is_good(&token, now_ms));
		assert_string_equal(token.value, "x");
		now_ms = token_due_ms(&token);
		assert_true(now_ms >= before_ms + TOKEN_RETRY_MIN_MS / 2);
		if (now_ms - before_ms > longest_ms)
			longest_ms = now_ms - before_ms;
	}
	assert_true(tries > 1);
	assert_true(longest_ms <= TOKEN_RETRY_MAX_MS);
	fetch(503, "", now_ms, now_ms);
	assert_false(token_is_good(&token, now_ms));
	assert_int_equal(token_due_ms(&token), INT64_MAX);

	get("{\"access_token\":\"y\",\"expires_in\":10}", now_ms);
	assert_int_equal(token_due_ms(&token), now_ms + 9000);
	assert_int_equal(token.generation, 2);
}

static void heeds_retry_after(void **state)
{
	struct answer a = answered(429, "");
	(void)state;
	a.retry_after = STR("30");
	get("{\"access_token\":\"x\",\"expires_in\":1000}", 0);
	token_asked(&token, 940000);
	token_answered(&token, &a, 940000, WALL_MS, &rng, &j);
	assert_int_equal(token_due_ms(&token), 970000);
}

static void an_old_tokens_refusal_is_no_news(void **state)
{
	(void)state;
	get("{\"access_token\":\"x\"}", 0);
	get("{\"access_token\":\"y\"}", 10);
	assert_true(token_refused(&token, 1, 20));
	assert_string_equal(token.value, "y");
	assert_true(token_refused(&token, 2, 20));
	assert_null(token.value);
	assert_int_equal(token_due_ms(&token), INT64_MAX);
	assert_true(token_refused(&token, 2, 30)); /* another request that was sent with it */
	assert_int_equal(token.refused, 1);
}

static void a_fresh_token_that_is_refused_is_kept_for_a_while(void **state)
{
	int64_t now_ms = 0;
	int64_t longest_ms = 0;
	(void)state;
	get("{\"access_token\":\"x\",\"expires_in\":1000000}", now_ms);
	assert_true(token_refused(&token, 1, now_ms));
	for (unsigned i = 2; i < 20; i++) {
		get("{\"access_token\":\"x\",\"expires_in\":1000000}", now_ms);
		int64_t fetched_ms = now_ms;
		while (!token_refused(&token, i, now_ms)) {
			assert_true(token_is_good(&token, now_ms));
			now_ms += 50;
		}
		assert_true(now_ms - fetched_ms >= TOKEN_KEEP_MIN_MS / 2);
		if (now_ms - fetched_ms > longest_ms)
			longest_ms = now_ms - fetched_ms;
	}
	assert_true(longest_ms > TOKEN_KEEP_MAX_MS / 4 && longest_ms <= TOKEN_KEEP_MAX_MS + 50);

	get("{\"access_token\":\"x\",\"expires_in\":1000000}", now_ms);
	token_accepted(&token, token.generation - 1); /* a late answer to an older one */
	assert_false(token_refused(&token, token.generation, now_ms));
	token_accepted(&token, token.generation);
	assert_true(token_refused(&token, token.generation, now_ms)); /* revoked */
}

static void is_dropped_when_somebody_says_so(void **state)
{
	(void)state;
	get("{\"access_token\":\"x\"}", 0);
	token_refused(&token, 1, 0);
	get("{\"access_token\":\"y\"}", 0);
	token_drop(&token);
	assert_false(token_is_good(&token, 0));
	get("{\"access_token\":\"z\"}", 0);
	assert_true(token_refused(&token, 3, 0));
}

static void a_preshared_key_never_ends(void **state)
{
	(void)state;
	token_set(&token, "key");
	assert_int_equal(token.generation, 1);
	assert_true(token_is_good(&token, INT64_MAX - 1));
	assert_int_equal(token_due_ms(&token), INT64_MAX);
	token_set(&token, "other");
	assert_string_equal(token.value, "other");
	assert_int_equal(token.generation, 2);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(knows_the_address),
	    TEST(asks_by_a_form),
	    TEST(reads_what_is_granted),
	    TEST(refuses_nonsense),
	    TEST(lives_from_when_it_was_asked_for),
	    TEST(is_renewed_a_tenth_before_its_end),
	    TEST(serves_to_its_end_when_it_cannot_be_renewed),
	    TEST(heeds_retry_after),
	    TEST(an_old_tokens_refusal_is_no_news),
	    TEST(a_fresh_token_that_is_refused_is_kept_for_a_while),
	    TEST(is_dropped_when_somebody_says_so),
	    TEST(a_preshared_key_never_ends),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
