// Abseil's B-tree, which was Google's cpp-btree, with loops over arrays, so that no call between languages is measured.
#include <absl/container/btree_map.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

// Keys of 32 or 64 bits; every value begins with the complement of its key's low 32 bits.
struct Map {
  virtual ~Map() = default;
  virtual void insert(const void *keys, size_t n) = 0;
  virtual uint64_t find(const void *keys, size_t n) const = 0;
  virtual size_t remove(const void *keys, size_t n) = 0;
};

// As absl::btree_map, but for the size of nodes, which that does not let choose.
template <typename Key, typename Value, int Node>
using Tree = absl::container_internal::btree_map_container<absl::container_internal::btree<
    absl::container_internal::map_params<Key, Value, std::less<Key>, std::allocator<std::pair<const Key, Value>>, Node,
                                         false>>>;

template <typename Key, size_t Size, int Node>
class Sized final : public Map {
  using Value = std::array<uint8_t, Size>;
  Tree<Key, Value, Node> map_;

 public:
  void insert(const void *keys, size_t n) override {
    auto *key = static_cast<const Key *>(keys);
    for (size_t i = 0; i < n; i++) {
      Value value{};
      uint32_t tag = ~static_cast<uint32_t>(key[i]);
      memcpy(value.data(), &tag, sizeof tag);
      map_.insert_or_assign(key[i], value);
    }
  }

  uint64_t find(const void *keys, size_t n) const override {
    auto *key = static_cast<const Key *>(keys);
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
      auto found = map_.find(key[i]);
      if (found == map_.end()) continue;
      uint32_t tag;
      memcpy(&tag, found->second.data(), sizeof tag);
      sum += tag;
    }
    return sum;
  }

  size_t remove(const void *keys, size_t n) override {
    auto *key = static_cast<const Key *>(keys);
    size_t removed = 0;
    for (size_t i = 0; i < n; i++) removed += map_.erase(key[i]);
    return removed;
  }
};

template <size_t Size>
Map *of_512(size_t value) {
  return value == Size ? new Sized<uint32_t, Size, 512> : nullptr;
}

}  // namespace

extern "C" {

// A map of keys of so many bytes, values of so many, and nodes of so many; null if there is none such.
Map *abseil_new(size_t key, size_t value, size_t node) {
  if (key == 8) return value == 8 && node == 256 ? new Sized<uint64_t, 8, 256> : nullptr;
  if (node == 512) {
    for (auto of : {of_512<4>, of_512<12>, of_512<28>, of_512<60>})
      if (Map *map = of(value)) return map;
    return nullptr;
  }
  if (value != 28) return nullptr;
  switch (node) {
    case 128: return new Sized<uint32_t, 28, 128>;
    case 256: return new Sized<uint32_t, 28, 256>;
    case 1024: return new Sized<uint32_t, 28, 1024>;
    case 2048: return new Sized<uint32_t, 28, 2048>;
    default: return nullptr;
  }
}

void abseil_free(Map *map) { delete map; }

void abseil_insert(Map *map, const void *keys, size_t n) { map->insert(keys, n); }

uint64_t abseil_find(const Map *map, const void *keys, size_t n) { return map->find(keys, n); }

size_t abseil_remove(Map *map, const void *keys, size_t n) { return map->remove(keys, n); }
}
