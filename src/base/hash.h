/* MurmurHash64A (https://github.com/aappleby/smhasher/blob/master/src/MurmurHash2.cpp), for tables in memory: eight
 * bytes at a time. */
#ifndef RELAY_BASE_HASH_H
#define RELAY_BASE_HASH_H

#include <stdint.h>

#include "base/str.h"

#define HASH_START UINT64_C(0xcbf29ce484222325)

/* Goes on with the hash of what came before; whether text is cut here or there makes a difference. */
static inline uint64_t hash_str(uint64_t hash, struct str s)
{
	const uint64_t m = UINT64_C(0xc6a4a7935bd1e995);
	hash ^= s.n * m;
	for (; s.n >= sizeof(uint64_t); s.p += sizeof(uint64_t), s.n -= sizeof(uint64_t)) {
		uint64_t word;
		memcpy(&word, s.p, sizeof word);
		word *= m;
		word ^= word >> 47;
		hash = (hash ^ word * m) * m;
	}
	if (s.n > 0) {
		uint64_t word = 0;
		memcpy(&word, s.p, s.n);
		hash = (hash ^ word) * m;
	}
	hash = (hash ^ hash >> 47) * m;
	return hash ^ hash >> 47;
}

#endif
