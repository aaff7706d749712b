// Abseil's B-tree with loops over arrays, so that no call between languages is measured.
#include <absl/container/btree_map.h>

#include <cstddef>
#include <cstdint>

using Map = absl::btree_map<uint64_t, uint64_t>;

extern "C" {

Map *abseil_new() { return new Map; }

void abseil_free(Map *map) { delete map; }

void abseil_insert(Map *map, const uint64_t *keys, size_t n) {
  for (size_t i = 0; i < n; i++) map->insert_or_assign(keys[i], ~keys[i]);
}

uint64_t abseil_find(const Map *map, const uint64_t *keys, size_t n) {
  uint64_t sum = 0;
  for (size_t i = 0; i < n; i++) {
    auto found = map->find(keys[i]);
    if (found != map->end()) sum += found->second;
  }
  return sum;
}

size_t abseil_remove(Map *map, const uint64_t *keys, size_t n) {
  size_t removed = 0;
  for (size_t i = 0; i < n; i++) removed += map->erase(keys[i]);
  return removed;
}
}
