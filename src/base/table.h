/* uthash (https://troydhanson.github.io/uthash/userguide.html) as it is used here; include this instead of it. Every
 * key is a number of 64 bits, the id of a row or a hash, so a multiplication spreads it (Knuth, The Art of Computer
 * Programming, 6.4). */
#ifndef RELAY_BASE_TABLE_H
#define RELAY_BASE_TABLE_H

#include <stdint.h>
#include <string.h>

#include "base/die.h"

static inline uint32_t table_hash(const void *key)
{
	uint64_t number;
	memcpy(&number, key, sizeof number);
	return (uint32_t)(number * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

#define uthash_fatal(msg) die(__FILE__, __LINE__, msg)
#define HASH_FUNCTION(key, length, hash) ((hash) = table_hash(key))
#define HASH_KEYCMP(a, b, length) memcmp(a, b, sizeof(uint64_t))

#include <uthash.h>

#endif
