/* A strict reader of JSON (RFC 8259) that hands out one value at a time, in the order of the text.
 *
 * Not cJSON, for three reasons: reading a row on the hot path builds no tree and allocates nothing (only a string that
 * has escapes is decoded into the caller's arena); any value is to be had as the text it was, so that an integer above
 * 2^53 reaches OpenFGA as it is; and what cJSON lets pass and changes unseen is refused: trailing bytes, \u0000 (cJSON
 * cuts the string there), lone surrogates, bytes that are not UTF-8, control characters, numbers such as 01 and 1.,
 * nesting deeper than JSON_MAX_DEPTH. Duplicate keys are the caller's affair: it sees every member.
 *
 *     struct json j = json_start(text);
 *     if (json_object(&j))
 *         while (json_member(&j, arena, &key))
 *             if (!json_string(&j, arena, &value)) break;     // each member's value must be read or skipped
 *     if (!json_end(&j)) …                                    // j.wrong says what is wrong, at byte j.at
 *
 * Once something is wrong every call is false (json_kind: JSON_WRONG) and changes nothing. A reader is a plain value: a
 * copy of it is a bookmark, good as long as the text is. */
#ifndef RELAY_BASE_JSON_H
#define RELAY_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/str.h"

enum { JSON_MAX_DEPTH = 128 };

enum json_kind { JSON_WRONG, JSON_NULL, JSON_BOOLEAN, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json {
	struct str text;
	size_t at;         /* the next byte to read; where it went wrong */
	const char *wrong; /* what is wrong with the text; NULL while all is well */
	unsigned depth;
	bool opened; /* an array or object was stepped into and nothing of it read yet */
};

struct json json_start(struct str text);

/* What value is at hand, by its first character. */
enum json_kind json_kind(struct json *j);

/* "null", "a string", "an array", …, for messages. */
const char *json_kind_name(enum json_kind kind);

/* Each of these takes the value at hand and is false when the value is of another kind, which makes the text wrong: ask
 * json_kind first where that matters. */

/* A string, decoded: a view of the text where it has no escape, else in the arena. */
bool json_string(struct json *j, struct arena *arena, struct str *out);

/* Steps into an object, or an array. */
bool json_object(struct json *j);
bool json_array(struct json *j);

/* Whether there is another member, or item. True: its value is at hand. False: the object or array is at its end and
 * has been left, or the text is wrong. */
bool json_member(struct json *j, struct arena *arena, struct str *key);
bool json_item(struct json *j);

/* Any value, checked to its end. raw (may be NULL) becomes its text, without white space around it. */
bool json_skip(struct json *j, struct str *raw);

/* Whether the text ended as it should: nothing is wrong, and after the value there is only white space. */
bool json_end(struct json *j);

#endif
