/* The two clocks. Decisions never read them: they are given the time. */
#ifndef RELAY_BASE_CLOCK_H
#define RELAY_BASE_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC: for durations and due times. */
int64_t clock_ms(void);
int64_t clock_us(void);

/* CLOCK_REALTIME, since 1970: for ages against created_at, and for dates in headers. */
int64_t clock_wall_ms(void);

#endif
