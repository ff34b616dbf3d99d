// Instructions that multiply matrices, as they lay their fragments out over lanes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <vector>

#include "support/dtype.h"
#include "target/cuda/emulator/instructions.h"
#include "target/cuda/emulator/machine.h"

namespace {

using tilewright::bf16_to_f32;
using tilewright::f16_to_f32;

float half_of(unsigned r, int i, bool brain) {
  const auto bits = static_cast<std::uint16_t>(r >> (16 * i));
  return brain ? bf16_to_f32(bits) : f16_to_f32(bits);
}

// An operand in swizzled scratch: rows of 128 bytes whose pieces of 16 are exchanged by the row's number.
struct Operand {
  unsigned start, panel, eight;
  bool brain;
  Operand(unsigned long long d, bool brain_) : start(static_cast<unsigned>(d & 0x3fff) << 4), panel(static_cast<unsigned>(d >> 16 & 0x3fff) << 4), eight(static_cast<unsigned>(d >> 32 & 0x3fff) << 4), brain(brain_) {}
  float at(unsigned place) const {
    const unsigned char* p = tilewright::emulated::own_scratch(place ^ (place >> 7 & 7) << 4, 2);
    tilewright::emulated::touch(p, 2, false);
    std::uint16_t bits;
    std::memcpy(&bits, p, 2);
    return half_of(bits, 0, brain);
  }
  float along_products(unsigned row, unsigned k) const { return at(start + row / 8 * eight + row % 8 * 128 + k * 2); }
  float along_rows(unsigned row, unsigned k) const { return at(start + row / 64 * panel + k / 8 * eight + k % 8 * 128 + row % 64 * 2); }
};

}  // namespace

void tw_multiply(void* const* lane, unsigned) {
  const auto of = [&](int l) { return static_cast<const tw_product*>(lane[l]); };
  const int products = of(0)->k;
  float a[16][16], b[16][8];
  for (int l = 0; l < 32; ++l) {
    for (int r = 0; r < products / 4; ++r)
      for (int i = 0; i < 2; ++i) a[l / 4 + r % 2 * 8][l % 4 * 2 + i + r / 2 * 8] = half_of(of(l)->a[r], i, of(l)->brain);
    for (int r = 0; r < products / 8; ++r)
      for (int i = 0; i < 2; ++i) b[l % 4 * 2 + i + r * 8][l / 4] = half_of(of(l)->b[r], i, of(l)->brain);
  }
  for (int l = 0; l < 32; ++l)
    for (int e = 0; e < 4; ++e) {
      float sum = *of(l)->c[e];
      for (int i = 0; i < products; ++i) sum += a[l / 4 + e / 2 * 8][i] * b[i][l % 4 * 2 + e % 2];
      *of(l)->c[e] = sum;
    }
}

namespace {

// An instruction of four warps, as its lanes gave it.
struct GroupProduct {
  std::vector<tw_group_product> lane;
  std::vector<std::vector<float*>> d;
};
// Results are there when somebody waits for them and not before: so long operands must stay, and registers hold nothing.
struct Group {
  std::vector<GroupProduct> products;
  std::map<float*, float> before;
};
struct UnderWay {
  Group open;
  std::deque<Group> committed;
};
std::map<std::pair<unsigned, unsigned>, UnderWay> under_way;           // by block and group
UnderWay& own() { return under_way[{tw_block(), tw_thread() / 128}]; }

void multiply(const GroupProduct& p) {
  static float a[64][16], b[16][256];
  const tw_group_product& first = p.lane[0];
  const Operand from_a(first.a_at, first.brain), from_b(first.b_at, first.brain);
  for (unsigned k = 0; k < 16; ++k) {
    if (!first.registers)
      for (unsigned row = 0; row < 64; ++row) a[row][k] = first.turned ? from_a.along_rows(row, k) : from_a.along_products(row, k);
    for (unsigned n = 0; n < static_cast<unsigned>(first.n); ++n) b[k][n] = first.transposed ? from_b.along_rows(n, k) : from_b.along_products(n, k);
  }
  if (first.registers)
    for (std::size_t t = 0; t < 128; ++t)
      for (std::size_t r = 0; r < 4; ++r)
        for (int i = 0; i < 2; ++i) a[t / 32 * 16 + t % 32 / 4 + r % 2 * 8][t % 4 * 2 + static_cast<std::size_t>(i) + r / 2 * 8] = half_of(p.lane[t].a[r], i, first.brain);
  for (std::size_t t = 0; t < 128; ++t)
    for (std::size_t e = 0; e < p.d[t].size(); ++e) {
      const std::size_t row = t / 32 * 16 + t % 32 / 4 + e / 2 % 2 * 8, column = e / 4 * 8 + t % 4 * 2 + e % 2;
      float sum = p.lane[t].add ? *p.d[t][e] : 0.0f;
      for (int k = 0; k < 16; ++k) sum += a[row][k] * b[k][column];
      *p.d[t][e] = sum;
    }
}

}  // namespace

void tw_group_multiply(void* const* lane, unsigned) {
  GroupProduct p;
  for (int l = 0; l < 128; ++l) {
    const auto* given = static_cast<const tw_group_product*>(lane[l]);
    p.lane.push_back(*given);
    p.d.emplace_back(given->d, given->d + given->n / 2);
  }
  own().open.products.push_back(std::move(p));
}
void tw_group_commit(void* const*, unsigned) {
  UnderWay& u = own();
  for (const GroupProduct& p : u.open.products)
    for (const auto& list : p.d)
      for (float* d : list) {
        if (u.open.before.count(d) || std::any_of(u.committed.begin(), u.committed.end(), [&](const Group& g) { return g.before.count(d) > 0; })) continue;
        u.open.before[d] = *d;
        *d = NAN;
      }
  u.committed.push_back(std::move(u.open));
  u.open = {};
}
void tw_group_wait(void* const* lane, unsigned) {
  UnderWay& u = own();
  const auto pending = static_cast<std::size_t>(*static_cast<const int*>(lane[0]));
  while (u.committed.size() > pending) {
    const Group g = std::move(u.committed.front());
    u.committed.pop_front();
    for (const auto& [d, value] : g.before) *d = value;
    for (const GroupProduct& p : g.products) multiply(p);
    // What a later group adds to is still under way.
    for (Group& later : u.committed)
      for (const GroupProduct& p : later.products)
        for (const auto& list : p.d)
          for (float* d : list)
            if (g.before.count(d) && later.before.emplace(d, *d).second) *d = NAN;
  }
}

namespace tilewright::emulated {
void forget_products() { under_way.clear(); }
bool products_under_way() {
  return std::any_of(under_way.begin(), under_way.end(), [](const auto& u) { return !u.second.open.products.empty() || !u.second.committed.empty(); });
}
}  // namespace tilewright::emulated
