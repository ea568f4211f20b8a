#include "base/json.h"

#include <stdint.h>

struct json json_start(struct str text)
{
	return (struct json){.text = text};
}

static bool wrong(struct json *j, const char *what)
{
	if (j->wrong == NULL)
		j->wrong = what;
	return false;
}

/* The byte at hand; -1 at the end of the text. */
static int peek(const struct json *j)
{
	return j->at < j->text.n ? (unsigned char)j->text.p[j->at] : -1;
}

static int peek_token(struct json *j)
{
	while (peek(j) == ' ' || peek(j) == '\t' || peek(j) == '\n' || peek(j) == '\r')
		j->at++;
	return peek(j);
}

/* Wrong because of the byte at hand; the end of the text is told from a strange byte. */
static bool unexpected(struct json *j, const char *what)
{
	return wrong(j, peek(j) < 0 ? "the text ends too early" : what);
}

enum json_kind json_kind(struct json *j)
{
	if (j->wrong != NULL)
		return JSON_WRONG;
	switch (peek_token(j)) {
	case '{':
		return JSON_OBJECT;
	case '[':
		return JSON_ARRAY;
	case '"':
		return JSON_STRING;
	case 't':
	case 'f':
		return JSON_BOOLEAN;
	case 'n':
		return JSON_NULL;
	case '-':
	case '0':
	case '1':
	case '2':
	case '3':
	case '4':
	case '5':
	case '6':
	case '7':
	case '8':
	case '9':
		return JSON_NUMBER;
	default:
		unexpected(j, "there is no value where one must be");
		return JSON_WRONG;
	}
}

const char *json_kind_name(enum json_kind kind)
{
	static const char *const names[] = {
	    [JSON_WRONG] = "not JSON",   [JSON_NULL] = "null",       [JSON_BOOLEAN] = "a boolean",
	    [JSON_NUMBER] = "a number",  [JSON_STRING] = "a string", [JSON_ARRAY] = "an array",
	    [JSON_OBJECT] = "an object",
	};
	return names[kind];
}

static int hex_digit(int c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* The four digits behind \u. */
static bool read_unit(struct json *j, uint32_t *unit)
{
	*unit = 0;
	for (int i = 0; i < 4; i++, j->at++) {
		int digit = hex_digit(peek(j));
		if (digit < 0)
			return unexpected(j, "\\u must be followed by four hexadecimal digits");
		*unit = *unit << 4 | (uint32_t)digit;
	}
	return true;
}

/* What stands behind \u, with the second half of a surrogate pair. */
static bool read_code_point(struct json *j, uint32_t *code)
{
	uint32_t low;
	if (!read_unit(j, code))
		return false;
	if (*code == 0)
		return wrong(j, "\\u0000 cannot be part of a string");
	if (*code < 0xd800 || *code > 0xdfff)
		return true;
	if (*code > 0xdbff || j->text.n - j->at < 2 || j->text.p[j->at] != '\\' || j->text.p[j->at + 1] != 'u')
		return wrong(j, "half of a surrogate pair stands alone");
	j->at += 2;
	if (!read_unit(j, &low))
		return false;
	if (low < 0xdc00 || low > 0xdfff)
		return wrong(j, "half of a surrogate pair stands alone");
	*code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
	return true;
}

static size_t utf8_encode(uint32_t code, char out[4])
{
	if (code < 0x80) {
		out[0] = (char)code;
		return 1;
	}
	size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	for (size_t i = length - 1; i > 0; i--, code >>= 6)
		out[i] = (char)(0x80 | (code & 0x3f));
	out[0] = (char)((0xf00 >> length & 0xff) | code);
	return length;
}

/* Reads the escape that begins at hand; its UTF-8 goes to bytes. Returns how many, 0 when it is wrong. */
static size_t read_escape(struct json *j, char bytes[4])
{
	static const char letters[] = "\"\\/bfnrt";
	static const char meanings[] = "\"\\/\b\f\n\r\t";
	j->at++;
	int c = peek(j);
	const char *letter = c > 0 ? strchr(letters, c) : NULL;
	if (letter != NULL) {
		j->at++;
		bytes[0] = meanings[letter - letters];
		return 1;
	}
	if (c != 'u') {
		unexpected(j, "a backslash is followed by something that is no escape");
		return 0;
	}
	j->at++;
	uint32_t code;
	return read_code_point(j, &code) ? utf8_encode(code, bytes) : 0;
}

/* Moves from behind the opening quote to the closing one. Whether there are escapes goes to *escapes. */
static bool scan_string(struct json *j, bool *escapes)
{
	size_t start = j->at;
	bool ascii = true;
	*escapes = false;
	for (;;) {
		j->at += str_plain((struct str){j->text.p + j->at, j->text.n - j->at});
		int c = peek(j);
		if (c == '"')
			break;
		if (c < ' ')
			return unexpected(j, "a control character stands in a string without an escape");
		if (c == '\\') {
			char bytes[4];
			*escapes = true;
			if (read_escape(j, bytes) == 0)
				return false;
			continue;
		}
		ascii = ascii && c < 0x80;
		j->at++;
	}
	if (!ascii && !str_is_utf8((struct str){j->text.p + start, j->at - start})) {
		j->at = start;
		return wrong(j, "a string is not UTF-8");
	}
	return true;
}

/* The string between here and end, which scan_string has found to be well-formed. */
static struct str decode(struct json *j, size_t end, struct arena *arena)
{
	char *p = arena_alloc(arena, end - j->at);
	size_t n = 0;
	while (j->at < end) {
		if (peek(j) == '\\')
			n += read_escape(j, p + n);
		else
			p[n++] = j->text.p[j->at++];
	}
	return (struct str){p, n};
}

/* The string at hand; out NULL: only checked. */
static bool read_string(struct json *j, struct arena *arena, struct str *out)
{
	bool escapes;
	if (j->wrong != NULL)
		return false;
	if (peek_token(j) != '"')
		return unexpected(j, "there is no string where one must be");
	size_t start = ++j->at;
	if (!scan_string(j, &escapes))
		return false;
	size_t end = j->at;
	if (out != NULL && !escapes) {
		*out = (struct str){j->text.p + start, end - start};
	} else if (out != NULL) {
		j->at = start;
		*out = decode(j, end, arena);
	}
	j->at = end + 1;
	return true;
}

bool json_string(struct json *j, struct arena *arena, struct str *out)
{
	return read_string(j, arena, out);
}

static bool step_in(struct json *j, char bracket, const char *what)
{
	if (j->wrong != NULL)
		return false;
	if (peek_token(j) != bracket)
		return unexpected(j, what);
	if (j->depth == JSON_MAX_DEPTH)
		return wrong(j, "arrays and objects are nested too deep");
	j->at++;
	j->depth++;
	j->opened = true;
	return true;
}

bool json_object(struct json *j)
{
	return step_in(j, '{', "there is no object where one must be");
}

bool json_array(struct json *j)
{
	return step_in(j, '[', "there is no array where one must be");
}

/* Whether another element follows: passes the comma, or leaves at the closing bracket. */
static bool more(struct json *j, char bracket, const char *what)
{
	if (j->wrong != NULL)
		return false;
	bool first = j->opened;
	j->opened = false;
	int c = peek_token(j);
	if (c == bracket) {
		j->at++;
		j->depth--;
		return false;
	}
	if (first)
		return true;
	if (c != ',')
		return unexpected(j, what);
	j->at++;
	return true;
}

static bool read_member(struct json *j, struct arena *arena, struct str *key)
{
	if (!more(j, '}', "a member of an object must be followed by , or }") || !read_string(j, arena, key))
		return false;
	if (peek_token(j) != ':')
		return unexpected(j, "a key must be followed by :");
	j->at++;
	return true;
}

bool json_member(struct json *j, struct arena *arena, struct str *key)
{
	return read_member(j, arena, key);
}

bool json_item(struct json *j)
{
	return more(j, ']', "an item of an array must be followed by , or ]");
}

static bool skip_word(struct json *j, struct str word)
{
	for (size_t i = 0; i < word.n; i++, j->at++)
		if (peek(j) != word.p[i])
			return unexpected(j, "there is no value where one must be");
	return true;
}

static bool skip_digits(struct json *j)
{
	if (peek(j) < '0' || peek(j) > '9')
		return unexpected(j, "a number lacks a digit");
	while (peek(j) >= '0' && peek(j) <= '9')
		j->at++;
	return true;
}

static bool skip_number(struct json *j)
{
	if (peek(j) == '-')
		j->at++;
	if (peek(j) == '0')
		j->at++; /* and no other digit: what follows is then something strange behind a value */
	else if (!skip_digits(j))
		return false;
	if (peek(j) == '.') {
		j->at++;
		if (!skip_digits(j))
			return false;
	}
	if (peek(j) == 'e' || peek(j) == 'E') {
		j->at++;
		if (peek(j) == '+' || peek(j) == '-')
			j->at++;
		return skip_digits(j);
	}
	return true;
}

/* Recurses no deeper than JSON_MAX_DEPTH. */
static bool skip_value(struct json *j)
{
	switch (json_kind(j)) {
	case JSON_WRONG:
		return false;
	case JSON_NULL:
		return skip_word(j, STR("null"));
	case JSON_BOOLEAN:
		return skip_word(j, peek(j) == 't' ? STR("true") : STR("false"));
	case JSON_NUMBER:
		return skip_number(j);
	case JSON_STRING:
		return read_string(j, NULL, NULL);
	case JSON_ARRAY:
		json_array(j);
		while (json_item(j))
			if (!skip_value(j))
				return false;
		return j->wrong == NULL;
	case JSON_OBJECT:
		json_object(j);
		while (read_member(j, NULL, NULL))
			if (!skip_value(j))
				return false;
		return j->wrong == NULL;
	}
	return false;
}

bool json_skip(struct json *j, struct str *raw)
{
	if (json_kind(j) == JSON_WRONG)
		return false;
	size_t start = j->at;
	if (!skip_value(j))
		return false;
	if (raw != NULL)
		*raw = (struct str){j->text.p + start, j->at - start};
	return true;
}

bool json_end(struct json *j)
{
	if (j->wrong == NULL && peek_token(j) >= 0)
		wrong(j, "something stands behind the value");
	return j->wrong == NULL;
}
