// A block: the registers of the evaluator and where each affine form stands, at one point of the loops.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "expr/evaluate_compile.h"

namespace tilewright::evaluator {

// An affine form split into what the lanes add and what the loops add. Its value in lane l is base + lane[l].
struct Form {
  std::vector<std::int64_t> along; // coefficient of each lane axis, innermost first
  std::vector<std::int64_t> step;  // what the form moves by when loop p advances and those inside it start again
  std::int64_t offset = 0;
  bool used = false; // by a step, a test or an address; others are not followed
  std::vector<std::int64_t> lane;
  std::int64_t base = 0, low = 0, high = 0; // low and high: over the lanes
  bool same = false, dense = false;         // lane[l] == 0, == l
};

// Where a read finds its elements: at the form, plus stride * register for each index that is not affine.
struct Source {
  const std::byte* data = nullptr;
  DType dtype = DType::f32;
  int form = -1;
  std::vector<std::pair<int, std::int64_t>> gathers; // step, stride
  std::unique_ptr<std::byte[]> staged;               // the copy that data points to, if there is one
};

struct Block {
  const Body* body = nullptr;
  std::vector<Form> forms;           // the body's affines, then one a load, then the output's
  std::vector<Source> sources;       // one a load
  std::vector<std::int64_t> extents; // of the lane axes, innermost first
  std::vector<int> runs;             // where rows of the innermost lane axis begin in the block; then n
  int n = 0;                         // lanes in use
  std::vector<int> order;            // steps by level
  std::vector<std::size_t> first;    // position in `order` of each level's first step
  std::vector<const void*> reg;      // one a step: its own storage, or elements in place
  std::vector<std::byte> storage;
  std::vector<char> all; // of an in_bounds step: it holds in every lane

  std::byte* own(int step) { return storage.data() + static_cast<std::size_t>(step) * lanes * 8; }
  template <class T> const T* as(int step) const { return static_cast<const T*>(reg[static_cast<std::size_t>(step)]); }
};

void prepare_registers(Block&, int levels);
void merge_lane_axes(Block&);           // axes along which every form goes on evenly become one
void place(Block&, std::int64_t start); // the block of points from `start` on, loops at their beginning
void advance(Block&, std::size_t loop);
void run_steps(Block&, std::size_t level); // the steps of this level and deeper ones

} // namespace tilewright::evaluator
