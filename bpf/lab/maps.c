// SPDX-License-Identifier: GPL-2.0-only
/* What the program keeps outside of its arena: a table for all maps, by address and key. */
#include "machine.h"

static u64 key_of(const void *key, size_t size)
{
	u64 k = 0;

	memcpy(&k, key, size);
	return k;
}

static struct map_entry *map_find(const void *map, u64 key)
{
	u64 at = ((u64)map * 31 + key) * 0x9e3779b97f4a7c15ull >> 40;
	u32 n;

	for (n = 0; n < MAP_SLOTS; n++, at++) {
		struct map_entry *e = &M->map[at % MAP_SLOTS];

		if (!e->map || (e->map == map && e->key == key))
			return e;
	}
	fprintf(stderr, "the simulated maps are full\n");
	abort();
}

void *lab_lookup(const void *map, const void *key, size_t key_size, size_t value_size, bool array,
		 size_t max)
{
	u64 k = key_of(key, key_size);
	struct map_entry *e = map_find(map, k);

	if (array && k >= max)
		return NULL;
	if (e->used)
		return e->value;
	if (!array)
		return NULL;
	e->map = map;
	e->key = k;
	e->used = true;
	if (!e->value)
		e->value = calloc(1, value_size);
	return e->value;
}

int lab_update(const void *map, const void *key, const void *value, size_t key_size,
	       size_t value_size)
{
	u64 k = key_of(key, key_size);
	struct map_entry *e = map_find(map, k);

	e->map = map;
	e->key = k;
	e->used = true;
	if (!e->value)
		e->value = calloc(1, value_size);
	memcpy(e->value, value, value_size);
	return 0;
}

int lab_delete(const void *map, const void *key, size_t key_size)
{
	map_find(map, key_of(key, key_size))->used = false;
	return 0;
}

void *lab_arena(u64 offset)
{
	return M->arena + offset;
}
