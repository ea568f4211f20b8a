#include "cmd/probe.h"

#include <cjson/cJSON.h>
#include <curl/curl.h>

enum { TIMEOUT_MS = 3000, MOST_BODY_BYTES = 64 * 1024, SHOWN_BYTES = 300 };

/* Where to ask a relay that listens there: the addresses that mean "every address" cannot be asked. */
static void add_url(const struct address *at, const char *page, struct buf *authority, struct buf *url)
{
	const char *host = at->host;
	if (host[0] == '\0' || strcmp(host, "0.0.0.0") == 0)
		host = "127.0.0.1";
	else if (strcmp(host, "::") == 0)
		host = "::1";
	buf_printf(authority, strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host, at->port);
	buf_printf(url, "http://%s%s", authority->p, page);
}

/* curl's write callback; a short count ends the transfer (CURLOPT_WRITEFUNCTION(3)). */
static size_t take_body(char *bytes, size_t size, size_t n, void *arg)
{
	struct buf *body = arg;
	if (size * n > MOST_BODY_BYTES - body->n)
		return 0;
	buf_add(body, bytes, size * n);
	return size * n;
}

static bool ask(const char *url, struct buf *body, long *status, CURLcode *code)
{
	CURL *curl = curl_easy_init();
	if (curl == NULL) {
		*code = CURLE_FAILED_INIT;
		return false;
	}
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http");
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)TIMEOUT_MS);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, body);
	*code = curl_easy_perform(curl);
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, status);
	curl_easy_cleanup(curl);
	return *code == CURLE_OK;
}

/* Adds the answer's reasons, "; " between them; nothing when it holds none. */
static void add_reasons(struct buf *out, struct str body)
{
	cJSON *root = cJSON_ParseWithLength(body.p, body.n);
	const cJSON *reason;
	size_t start = out->n;
	cJSON_ArrayForEach(reason, cJSON_GetObjectItemCaseSensitive(root, "reasons"))
	{
		if (!cJSON_IsString(reason))
			continue;
		if (out->n > start)
			buf_add_text(out, "; ");
		buf_add_clean(out, str_of(reason->valuestring), SHOWN_BYTES);
	}
	cJSON_Delete(root);
}

static void add_refusal(struct buf *out, const char *authority, long status, struct str body)
{
	size_t start = out->n;
	add_reasons(out, body);
	if (out->n > start)
		return;
	buf_printf(out, "%s answers %ld: ", authority, status);
	buf_add_clean(out, body, SHOWN_BYTES);
}

static void add_failure(struct buf *out, const char *authority, CURLcode code)
{
	if (code == CURLE_COULDNT_CONNECT)
		buf_printf(out, "nothing answers on %s: is relay running, with this --http-listen?", authority);
	else if (code == CURLE_OPERATION_TIMEDOUT)
		buf_printf(out, "no answer from %s within %d s", authority, TIMEOUT_MS / 1000);
	else
		buf_printf(out, "%s: %s", authority, curl_easy_strerror(code));
}

enum probe_end probe_ask(const struct address *at, const char *page, struct buf *body, struct buf *problem)
{
	struct buf authority = {0};
	struct buf url = {0};
	CURLcode code;
	long status = 0;
	enum probe_end end = PROBE_READY;
	add_url(at, page, &authority, &url);
	if (!ask(url.p, body, &status, &code)) {
		add_failure(problem, authority.p, code);
		end = PROBE_SILENT;
	} else if (status != 200) {
		add_refusal(problem, authority.p, status, buf_str(body));
		end = PROBE_UNREADY;
	}
	buf_free(&authority);
	buf_free(&url);
	return end;
}
