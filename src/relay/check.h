/* Asks OpenFGA for the store and the model: before the first claim, after every failure, and at every sweep. A deleted
 * store takes writes with 200 and loses them, so this is what tells. Then for its age, where that is not known. */
#ifndef RELAY_RELAY_CHECK_H
#define RELAY_RELAY_CHECK_H

#include <stdbool.h>

#include "base/options.h"
#include "core/probe.h"
#include "core/verdict.h"
#include "io/fga.h"

struct check;

/* The outcome: DELIVERED (all in order), RETRY or HALT. store_id, age: what was found, NULL and UNKNOWN unless
 * DELIVERED; an age that cannot be told keeps nothing from being in order. */
typedef void check_fn(void *arg, const struct judgement *j, const char *store_id, enum server_age age);

/* What was asked for last: that is what an outcome other than DELIVERED is about. */
enum check_question { CHECK_STORE, CHECK_MODEL, CHECK_AGE };
enum check_question check_question(const struct check *c);

struct check *check_new(struct fga *fga, const struct options *o, check_fn *fn, void *arg);

/* NULL is nothing. Only after fga was freed, or when nothing is under way. */
void check_free(struct check *c);

/* Begins to ask; fn is called once, later. Nothing may be under way. anew: it may be another server than the last time,
 * so that its age is asked for again. */
void check_start(struct check *c, bool anew);

/* The same for the store alone: for those who only read. The age is UNKNOWN. */
void check_start_store(struct check *c);

#endif
