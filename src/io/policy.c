#include "io/policy.h"

#include <openssl/evp.h>

#include "base/die.h"

/* What is between the two tags. */
static struct str between(const char *html, const char *open, const char *close)
{
	const char *from = strstr(html, open);
	ASSERT(from != NULL);
	from += strlen(open);
	const char *to = strstr(from, close);
	ASSERT(to != NULL);
	return (struct str){from, (size_t)(to - from)};
}

/* https://www.w3.org/TR/CSP3/#grammardef-hash-source */
static void add_hash(struct buf *out, struct str text)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned char base64[2 * EVP_MAX_MD_SIZE];
	unsigned n = 0;
	if (EVP_Digest(text.p, text.n, digest, &n, EVP_sha256(), NULL) != 1)
		die(__FILE__, __LINE__, "OpenSSL cannot make a SHA-256");
	EVP_EncodeBlock(base64, digest, (int)n);
	buf_printf(out, "'sha256-%s'", (const char *)base64);
}

void policy_of(const char *html, struct buf *out)
{
	buf_add_text(out, "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
	                  "connect-src 'self'; img-src data:; style-src ");
	add_hash(out, between(html, "<style>", "</style>"));
	buf_add_text(out, "; script-src ");
	add_hash(out, between(html, "<script>", "</script>"));
}
