// The threads of a block, where they meet, and who goes on.
#include "target/cuda/emulator/machine.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <vector>

#include "target/cuda/emulator/fibers.h"
#include "target/cuda/emulator/instructions.h"
#include "target/cuda/emulator/memory.h"

#if defined(__x86_64__)
asm(R"(
.text
.globl tw_switch
.hidden tw_switch
.type tw_switch,@function
tw_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tw_switch,.-tw_switch
)");
#endif

namespace tilewright::emulated {

namespace {

constexpr unsigned first_address = 1024;               // of scratch, as instructions see it
constexpr unsigned block_shift = 24;

struct Copy { void* to; const void* from; int bytes, live; };
struct Thread {
  Fiber fiber;
  unsigned id = 0, number = 0;                         // in the block; in the cluster
  Block* block = nullptr;
  enum class State { ready, waits, done } state = State::ready;
  const void* waits_on = nullptr;
  std::deque<std::vector<Copy>> copies;                // groups under way; the last one is open
};
// Lanes that come together in one instruction.
struct Together {
  int lanes = 32;
  unsigned mask = 0;
  void (*compute)(void* const*, unsigned) = nullptr;
  std::vector<void*> lane;
  std::vector<Thread*> waiting;
};
struct Meeting {
  int arrived = 0;
  std::vector<Thread*> waiting;
};
struct Counter {                                       // a barrier in scratch
  int arrivals = 0, pending = 0;
  std::int64_t bytes = 0;
  unsigned phase = 0;
};

}  // namespace

struct Block {
  unsigned index = 0, rank = 0;
  int live = 0;
  Scratch* scratch = nullptr;
  std::map<int, Meeting> meetings;
  std::map<unsigned, std::vector<Together>> together;  // by warp, or 1000 + group
  std::map<unsigned, Counter> counters;
  std::int64_t registers = 0;                          // that its threads ask for beyond those they began with
};

namespace {

struct Delivery { unsigned to, barrier, block; Map map; std::vector<int> at; };

struct Machine {
  Stacks stacks;
  Fiber scheduler;
  Thread* self = nullptr;
  std::vector<Thread> threads;
  std::vector<Block> blocks;
  std::vector<Scratch> scratch = std::vector<Scratch>(16);
  std::deque<Delivery> deliveries;
  Meeting cluster;
  Grid grid;
  void (*entry)(void**) = nullptr;
  void** arguments = nullptr;
  std::string problem;
} m;

void wait(const void* on) {
  m.self->state = Thread::State::waits;
  m.self->waits_on = on;
  go(m.self->fiber, m.scheduler);
}
void wake(std::vector<Thread*>& list) {
  for (Thread* t : list) t->state = Thread::State::ready;
  list.clear();
}

void leave_meeting(Block& b, Meeting& meeting, int wanted) {
  if (meeting.arrived < wanted) return;
  meeting.arrived = 0;
  if (wanted >= b.live) next_epoch();
  else races_are_ordered_elsewhere();
  wake(meeting.waiting);
}

void body() {
  m.entry(m.arguments);
  Thread& t = *m.self;
  t.state = Thread::State::done;
  Block& b = *t.block;
  --b.live;
  if (auto& all = b.meetings[0]; all.arrived > 0) leave_meeting(b, all, b.live);
  go(t.fiber, m.scheduler);
  __builtin_unreachable();
}

Counter& counter(unsigned address) {
  Block& b = m.blocks.at(address >> block_shift);
  const auto it = b.counters.find(address & 0xffffffu);
  if (it == b.counters.end()) fail("no barrier was made there");
  return it->second;
}
void count_down(Counter& c) {
  if (c.pending > 0 || c.bytes != 0) return;
  c.phase ^= 1, c.pending = c.arrivals;
  for (Thread& t : m.threads)
    if (t.state == Thread::State::waits && t.waits_on == &c) t.state = Thread::State::ready;
}

void deliver(const Delivery& d) {
  const Map& map = d.map;
  std::int64_t all = 1;
  for (int i = 0; i < map.rank; ++i) all *= map.box[i];
  Block& b = m.blocks[d.block];
  const unsigned to = (d.to & 0xffffffu) - first_address;
  if (to + static_cast<std::uint64_t>(all * map.width) > static_cast<std::uint64_t>(m.grid.scratch)) return void(m.problem = "a box lies beyond the end of scratch");
  for (std::int64_t n = 0; n < all; ++n) {
    std::int64_t rest = n, from = 0;
    bool inside = true;
    for (int i = 0; i < map.rank; ++i) {
      const std::int64_t x = d.at[static_cast<std::size_t>(i)] + rest % map.box[i];
      rest /= map.box[i];
      inside &= x >= 0 && x < map.dims[i];
      from += x * (i == 0 ? map.width : map.strides[i - 1]);
    }
    std::uint64_t place = to + first_address + static_cast<std::uint64_t>(n * map.width);
    place ^= (place >> 7 & 7) << 4;
    unsigned char* into = b.scratch->bytes() + (place - first_address);
    if (inside) std::memcpy(into, static_cast<const unsigned char*>(map.base) + from, static_cast<std::size_t>(map.width));
    else std::memset(into, 0, static_cast<std::size_t>(map.width));
  }
  Counter& c = b.counters.at(d.barrier & 0xffffffu);
  c.bytes -= all * map.width;
  count_down(c);
}

void prepare(std::int64_t first) {
  const auto blocks = static_cast<std::size_t>(m.grid.cluster), threads = static_cast<std::size_t>(m.grid.threads);
  m.threads.clear(), m.threads.resize(blocks * threads);
  m.blocks.clear(), m.blocks.resize(blocks);
  m.deliveries.clear(), m.cluster = {};
  next_blocks();
  for (std::size_t b = 0; b < blocks; ++b) {
    Block& block = m.blocks[b];
    block.index = static_cast<unsigned>(first) + static_cast<unsigned>(b), block.rank = static_cast<unsigned>(b), block.live = m.grid.threads;
    block.scratch = &m.scratch[b];
    block.scratch->reset(static_cast<std::size_t>(m.grid.scratch));
    for (std::size_t t = 0; t < threads; ++t) {
      Thread& x = m.threads[b * threads + t];
      x.id = static_cast<unsigned>(t), x.number = static_cast<unsigned>(b * threads + t), x.block = &block;
      x.fiber.start(m.stacks.at(b * threads + t), body);
    }
  }
}

// Until all are done, or nobody can go on.
void schedule() {
  for (;;) {
    bool moved = false, left = false;
    for (Thread& t : m.threads) {
      left |= t.state != Thread::State::done;
      if (t.state != Thread::State::ready) continue;
      moved = true;
      m.self = &t;
      go(m.scheduler, t.fiber);
      if (!m.problem.empty()) return;
    }
    if (!left) {
      for (const Block& b : m.blocks)
        if (b.registers > 0) m.problem = "roles ask for " + std::to_string(b.registers) + " registers more than block " + std::to_string(b.index) + " began with, and would wait for ever";
      return;
    }
    if (moved) continue;
    if (m.deliveries.empty()) {
      std::size_t waiting = 0;
      for (Thread& t : m.threads) waiting += t.state == Thread::State::waits, m.self = t.state == Thread::State::waits ? &t : m.self;
      m.problem = std::to_string(waiting) + " threads wait for ever, one of them thread " + std::to_string(m.self->id) + " of block " + std::to_string(m.self->block->index);
      return;
    }
    deliver(m.deliveries.front());
    m.deliveries.pop_front();
    if (!m.problem.empty()) return;
  }
}

}  // namespace

void fail(const std::string& what) {
  if (m.problem.empty()) m.problem = what + " (thread " + std::to_string(m.self->id) + " of block " + std::to_string(m.self->block->index) + ")";
  go(m.self->fiber, m.scheduler);
  __builtin_unreachable();
}

void touch(const void* p, std::size_t bytes, bool writes) {
  const auto a = reinterpret_cast<std::uintptr_t>(p);
  if (m.stacks.holds(a)) return;
  Scratch& s = *m.self->block->scratch;
  const std::string what = s.holds(a) ? s.touch(a, bytes, m.self->number, writes) : touch_memory(a, bytes, m.self->number, writes);
  if (!what.empty()) fail(what);
}

unsigned char* own_scratch(unsigned address, std::size_t bytes) {
  const unsigned at = (address & 0xffffffu) - first_address;
  if (at + bytes > static_cast<std::size_t>(m.grid.scratch)) fail("an operand lies beyond the end of scratch");
  return m.self->block->scratch->bytes() + at;
}

std::string run(void (*entry)(void**), void** arguments, const Grid& grid, std::int64_t blocks) {
  m.grid = grid, m.entry = entry, m.arguments = arguments, m.problem.clear();
  next_launch();
  forget_products();
  const std::int64_t groups = grid.blocks / grid.cluster, wanted = blocks > 0 ? std::min(groups, (blocks + grid.cluster - 1) / grid.cluster) : groups;
  for (std::int64_t i = 0; i < wanted && m.problem.empty(); ++i) {
    prepare((wanted == 1 ? 0 : i * (groups - 1) / (wanted - 1)) * grid.cluster);
    schedule();
  }
  if (m.problem.empty() && products_under_way()) m.problem = "the kernel ends before products of four warps that it has asked for";
  return m.problem;
}

}  // namespace tilewright::emulated

// ---- what kernels call

using namespace tilewright::emulated;

unsigned tw_thread() { return m.self->id; }
unsigned tw_block() { return m.self->block->index; }
unsigned tw_threads() { return static_cast<unsigned>(m.grid.threads); }
unsigned tw_blocks() { return static_cast<unsigned>(m.grid.blocks); }
unsigned tw_rank() { return m.self->block->rank; }
unsigned char* tw_scratch() { return m.self->block->scratch->bytes(); }

void tw_align(const void* p, int bytes) {
  if (reinterpret_cast<std::uintptr_t>(p) % static_cast<unsigned>(bytes)) fail("an access is not aligned to its " + std::to_string(bytes) + " bytes");
}
// As many as the launch bounds allow one block a core, as the compiler gives to kernels whose threads change them.
void tw_registers(int n) { m.self->block->registers += n - std::min(65536 / m.grid.threads / 8 * 8, 240); }
void tw_meet(int barrier, int threads) {
  Block& b = *m.self->block;
  Meeting& meeting = b.meetings[barrier];
  const int wanted = threads == 0 ? b.live : threads;
  ++meeting.arrived;
  if (meeting.arrived >= wanted) return leave_meeting(b, meeting, wanted);
  meeting.waiting.push_back(m.self);
  wait(&meeting);
}
void tw_arrive(int barrier, int threads) {
  Block& b = *m.self->block;
  Meeting& meeting = b.meetings[barrier];
  ++meeting.arrived;
  leave_meeting(b, meeting, threads);
}
void tw_cluster_meet() {
  if (++m.cluster.arrived == static_cast<int>(std::count_if(m.threads.begin(), m.threads.end(), [](const Thread& t) { return t.state != Thread::State::done; }))) {
    m.cluster.arrived = 0;
    next_epoch();
    return wake(m.cluster.waiting);
  }
  m.cluster.waiting.push_back(m.self);
  wait(&m.cluster);
}

void tw_together(int lanes, unsigned mask, void (*compute)(void* const*, unsigned), void* mine) {
  Thread* const self = m.self;
  const unsigned lane = self->id % static_cast<unsigned>(lanes), key = lanes == 32 ? self->id / 32 : 1000 + self->id / 128;
  auto& list = self->block->together[key];
  if (lanes == 32 && !(mask >> lane & 1)) fail("a lane is not in the mask that it gives");
  auto it = std::find_if(list.begin(), list.end(), [&](const Together& t) { return lanes == 128 || (t.mask & mask); });
  if (it == list.end()) {
    list.push_back({lanes, mask, compute, std::vector<void*>(static_cast<std::size_t>(lanes), nullptr), {}});
    it = list.end() - 1;
  }
  if (it->mask != mask || it->compute != compute) fail("lanes of a warp come together in different instructions");
  it->lane[lane] = mine;
  const int wanted = lanes == 128 ? 128 : __builtin_popcount(mask);
  if (static_cast<int>(it->waiting.size()) + 1 < wanted) {
    it->waiting.push_back(self);
    return wait(nullptr);
  }
  Together all = std::move(*it);
  list.erase(it);
  void* here[128];                                     // on a stack, where nobody looks
  std::copy(all.lane.begin(), all.lane.end(), here);
  compute(here, mask);
  wake(all.waiting);
}

void tw_copy_async(void* to, const void* from, int bytes, int live) {
  if (live > 0) touch(from, static_cast<std::size_t>(live), false);
  touch(to, static_cast<std::size_t>(bytes), true);
  if (reinterpret_cast<std::uintptr_t>(to) % static_cast<unsigned>(bytes) || (live > 0 && reinterpret_cast<std::uintptr_t>(from) % static_cast<unsigned>(bytes)))
    fail("a copy is not aligned to its " + std::to_string(bytes) + " bytes");
  if (m.self->copies.empty()) m.self->copies.emplace_back();
  m.self->copies.back().push_back({to, from, bytes, live});
  std::memset(to, 0xff, static_cast<std::size_t>(bytes));
}
void tw_copies_commit() {
  if (m.self->copies.empty()) m.self->copies.emplace_back();
  m.self->copies.emplace_back();
}
void tw_copies_wait(int pending) {
  auto& list = m.self->copies;
  while (static_cast<int>(list.size()) - 1 > pending) {
    for (const Copy& c : list.front()) {
      touch(c.to, static_cast<std::size_t>(c.bytes), true);
      std::memcpy(c.to, c.from, static_cast<std::size_t>(c.live));
      std::memset(static_cast<unsigned char*>(c.to) + c.live, 0, static_cast<std::size_t>(c.bytes - c.live));
    }
    list.pop_front();
  }
}

unsigned tw_shared_address(const void* p) {
  const auto offset = reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(m.self->block->scratch->bytes());
  if (offset > static_cast<std::size_t>(m.grid.scratch)) fail("an address that is not in scratch");
  return m.self->block->rank << block_shift | (static_cast<unsigned>(offset) + first_address);
}
void* tw_shared(unsigned address) { return m.blocks[address >> block_shift].scratch->bytes() + ((address & 0xffffffu) - first_address); }

void tw_barrier_make(unsigned b, int arrivals) {
  races_are_ordered_elsewhere();
  m.blocks[b >> block_shift].counters[b & 0xffffffu] = {arrivals, arrivals, 0, 0};
}
void tw_barrier_expect(unsigned b, int bytes) { counter(b).bytes += bytes; }
void tw_barrier_arrive(unsigned b) {
  Counter& c = counter(b);
  if (--c.pending < 0) fail("more arrivals at a barrier than it counts");
  count_down(c);
}
unsigned tw_barrier_wait(unsigned b, unsigned phase) {
  Counter& c = counter(b);
  while (c.phase == (phase & 1)) wait(&c);
  return 1;
}
void tw_box(unsigned to, const void* map, int dims, const int* at, unsigned barrier, unsigned blocks) {
  const Map& described = *static_cast<const Map*>(map);
  if (described.rank != dims) fail("a box of " + std::to_string(dims) + " dims of a tensor that is described by " + std::to_string(described.rank));
  for (unsigned b = 0; b < m.blocks.size(); ++b)
    if (blocks ? blocks >> b & 1 : b == m.self->block->rank) m.deliveries.push_back({to, barrier, b, described, std::vector<int>(at, at + dims)});
}
