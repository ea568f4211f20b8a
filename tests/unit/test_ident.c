#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ident.h"

#define TEN "abcdefghij"
#define SIXTY_THREE TEN TEN TEN TEN TEN TEN "abc"

static void reads_names(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		const char *schema;
		const char *name;
	} cases[] = {
	    {"fga_outbox", "", "fga_outbox"},
	    {"Fga_Outbox", "", "fga_outbox"},
	    {"\"Fga Outbox\"", "", "Fga Outbox"},
	    {"audit.fga_outbox", "audit", "fga_outbox"},
	    {"Audit.\"Fga.Outbox\"", "audit", "Fga.Outbox"},
	    {"\"a\"\"b\".\"\"\"\"", "a\"b", "\""},
	    {"_a$1.b2", "_a$1", "b2"},
	    {"User", "", "user"},
	    {"M\xc3\x9cller", "", "m\xc3\x9cller"},
	    {SIXTY_THREE, "", SIXTY_THREE},
	    {"\"" SIXTY_THREE "\"." SIXTY_THREE, SIXTY_THREE, SIXTY_THREE},
	    {"\"back\\slash 'n'\"", "", "back\\slash 'n'"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct qualified_name name;
		struct err e = {0};
		if (!ident_parse(cases[i].text, &name, &e))
			fail_msg("%s: %s", cases[i].text, e.text);
		assert_string_equal(name.schema, cases[i].schema);
		assert_string_equal(name.name, cases[i].name);
	}
}

static void refuses_the_rest(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		const char *reason;
	} cases[] = {
	    {"", "must be name or schema.name"},
	    {".", "must be name or schema.name"},
	    {"a.", "must be name or schema.name"},
	    {".a", "must be name or schema.name"},
	    {" a", "must be name or schema.name"},
	    {"1a", "must be name or schema.name"},
	    {"$a", "must be name or schema.name"},
	    {"a ", "outside double quotes"},
	    {"a . b", "outside double quotes"},
	    {"my-table", "outside double quotes"},
	    {"a;drop table b", "outside double quotes"},
	    {"\"a\"b", "outside double quotes"},
	    {"a\"b\"", "outside double quotes"},
	    {"a.b.c", "more parts"},
	    {"\"", "never closed"},
	    {"\"a", "never closed"},
	    {"\"a\"\"", "never closed"},
	    {"a.\"b", "never closed"},
	    {"\"\"", "is empty"},
	    {"a.\"\"", "is empty"},
	    {SIXTY_THREE "d", "longer than 63 bytes"},
	    {"\"" SIXTY_THREE "d\"", "longer than 63 bytes"},
	    {"a." SIXTY_THREE "d", "longer than 63 bytes"},
	    {"a\xff", "must be UTF-8"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct qualified_name name;
		struct err e = {0};
		if (ident_parse(cases[i].text, &name, &e))
			fail_msg("%s was accepted", cases[i].text);
		assert_int_equal(e.kind, ERR_CONFIG);
		if (strstr(e.text, cases[i].reason) == NULL)
			fail_msg("%s: %s", cases[i].text, e.text);
	}
}

static void assert_added(struct buf *b, const char *expected)
{
	assert_string_equal(b->p, expected);
	buf_clear(b);
}

static void quotes(void **state)
{
	(void)state;
	struct buf b = {0};
	ident_add(&b, "fga_outbox");
	assert_added(&b, "\"fga_outbox\"");
	ident_add(&b, "my \"table\"");
	assert_added(&b, "\"my \"\"table\"\"\"");
	ident_add_qualified(&b, &(struct qualified_name){.name = "T"});
	assert_added(&b, "\"T\"");
	ident_add_qualified(&b, &(struct qualified_name){.schema = "a\"b", .name = "c.d"});
	assert_added(&b, "\"a\"\"b\".\"c.d\"");
	ident_add_literal(&b, "");
	assert_added(&b, "''");
	ident_add_literal(&b, "it's");
	assert_added(&b, "'it''s'");
	ident_add_literal(&b, "back\\slash's");
	assert_added(&b, "E'back\\\\slash''s'");
	buf_free(&b);
}

static void fills_in(void **state)
{
	(void)state;
	char *text = ident_fill_in("SELECT '%%' FROM %s WHERE x = %l AND y LIKE 'a%'", "\"it's\"");
	assert_string_equal(text, "SELECT '%%' FROM \"it's\" WHERE x = '\"it''s\"' AND y LIKE 'a%'");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(reads_names),
	    cmocka_unit_test(refuses_the_rest),
	    cmocka_unit_test(quotes),
	    cmocka_unit_test(fills_in),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
