#include "io/notify.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/log.h"

enum {
	MOST_STATUS_BYTES = 1000,
	STOPPING_MARGIN_MS = 5000, /* to tear down, on top of what may be in flight */
};

struct notify {
	int fd;
	struct sockaddr_un to;
	socklen_t to_size;
	int64_t pulse_us;
	bool has_watchdog;
	bool stopping;
	struct buf state; /* what holds now: READY=1, or STOPPING=1 and what belongs to it */
	bool is_told;     /* that, and the status */
	struct buf status;
	struct event *pulse;
	struct log_gate failed;
	notify_status_fn *fn;
	void *arg;
};

/* A path, or @ and an abstract name (unix(7)). */
static bool read_address(const char *name, struct sockaddr_un *to, socklen_t *size)
{
	size_t n = strlen(name);
	if ((name[0] != '/' && name[0] != '@') || n < 2 || n >= sizeof to->sun_path)
		return false;
	*to = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(to->sun_path, name, n);
	if (name[0] == '@')
		to->sun_path[0] = '\0';
	*size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (name[0] == '/'));
	return true;
}

/* A number from 1 up; 0 where the variable holds none. */
static int64_t read_number(const char *name)
{
	const char *text = getenv(name);
	char *end;
	if (text == NULL)
		return 0;
	errno = 0;
	long long n = strtoll(text, &end, 10);
	return errno == 0 && *end == '\0' && n > 0 ? n : 0;
}

/* sd_watchdog_enabled(3): meant for this process, unless it says that it is for another. */
static int64_t watchdog_us(void)
{
	return getenv("WATCHDOG_PID") == NULL || read_number("WATCHDOG_PID") == getpid() ? read_number("WATCHDOG_USEC")
	                                                                                 : 0;
}

static bool send_text(struct notify *n, const struct buf *text)
{
	uint64_t repeated;
	ssize_t sent =
	    sendto(n->fd, text->p, text->n, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&n->to, n->to_size);
	if (sent >= 0)
		return true;
	const char *reason = strerror(errno);
	if (log_gate_pass(&n->failed, str_of(reason), clock_ms(), &repeated))
		log_warning("cannot tell the service manager", LOG_S("reason", reason), LOG_N("repeated", repeated));
	return false;
}

static void arm(struct notify *n)
{
	struct timeval tv = {n->pulse_us / 1000000, n->pulse_us % 1000000};
	evtimer_add(n->pulse, &tv);
}

/* Says what is not known yet, and that the loop turns. */
static void tell(struct notify *n)
{
	struct buf text = {0};
	struct buf line = {0};
	struct buf status = {0};
	n->fn(n->arg, &line);
	buf_add_clean(&status, buf_str(&line), MOST_STATUS_BYTES);
	bool has_changed = !str_eq(buf_str(&status), buf_str(&n->status));
	if (!n->is_told)
		buf_add_str(&text, buf_str(&n->state));
	if (!n->is_told || has_changed)
		buf_printf(&text, "STATUS=%s\n", status.p);
	if (n->has_watchdog)
		buf_add_text(&text, "WATCHDOG=1\n");
	if (text.n > 0 && send_text(n, &text)) {
		n->is_told = true;
		buf_clear(&n->status);
		buf_add_str(&n->status, buf_str(&status));
	}
	buf_free(&status);
	buf_free(&line);
	buf_free(&text);
	arm(n);
}

static void on_pulse(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	tell(arg);
}

struct notify *notify_new(struct event_base *base, notify_status_fn *status, void *arg)
{
	const char *name = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to;
	socklen_t to_size;
	if (name == NULL || *name == '\0')
		return NULL;
	if (!read_address(name, &to, &to_size)) {
		log_warning("cannot tell the service manager",
		            LOG_S("reason", "NOTIFY_SOCKET is neither a path nor @ and a name"));
		return NULL;
	}
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		log_warning("cannot tell the service manager", LOG_S("reason", strerror(errno)));
		return NULL;
	}
	struct notify *n = xcalloc(1, sizeof *n);
	*n = (struct notify){.fd = fd, .to = to, .to_size = to_size, .fn = status, .arg = arg};
	int64_t most_us = (int64_t)NOTIFY_STATUS_MS * 1000;
	int64_t half_us = watchdog_us() / 2;
	n->has_watchdog = half_us > 0;
	n->pulse_us = n->has_watchdog && half_us < most_us ? half_us : most_us;
	buf_add_text(&n->state, "READY=1\n");
	n->pulse = evtimer_new(base, on_pulse, n);
	ASSERT(n->pulse != NULL);
	event_active(n->pulse, EV_TIMEOUT, 0);
	return n;
}

void notify_reloaded(struct notify *n)
{
	struct buf text = {0};
	if (n == NULL || n->stopping)
		return;
	buf_printf(&text, "RELOADING=1\nMONOTONIC_USEC=%lld\n", (long long)clock_us());
	(void)send_text(n, &text);
	buf_free(&text);
	n->is_told = false;
	tell(n);
}

void notify_stopping(struct notify *n, int64_t most_ms)
{
	if (n == NULL)
		return;
	n->stopping = true;
	buf_clear(&n->state);
	buf_printf(&n->state, "STOPPING=1\nEXTEND_TIMEOUT_USEC=%lld\n",
	           (long long)(most_ms + STOPPING_MARGIN_MS) * 1000);
	n->is_told = false;
	tell(n);
}

void notify_free(struct notify *n)
{
	if (n == NULL)
		return;
	event_free(n->pulse);
	close(n->fd);
	buf_free(&n->state);
	buf_free(&n->status);
	free(n);
}
