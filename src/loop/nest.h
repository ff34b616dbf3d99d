// A planned kernel as explicit loops: the contract between planning and targets. A nest is sequential; a target prints or runs
// the loops that it is given.
//
//   for y0, y1 in tiles(0, 56, 14) grid:
//     load X[n 0:1, c 0:32, 2*y0-1 : 2*y1, 0:112] -> x
//     init acc
//     for c0, c1 in tiles(0, 32, 16) seq:
//       contract acc += x * w
//     map z = max(acc + b, 0)
//     store z
//
// A sum that follows a statistic along the stream is corrected in its own buffer before a turn's share is added:
//
//   for x0, x1 in tiles(0, 4096, 64) seq:
//     contract S;  map m_was = m;  reduce m;  map E = exp(S - m)
//     map O_1 = O_1 * exp(m_was - m);  contract O_1 += E * V
//
// In a walk a turn makes and loads what is new (from 2*y0 on, after the first turn); the rows before that are there from the turn before:
//
//   for y0, y1 in tiles(0, 28, 4) walk:
//     load X[c 0:24, y 2*y0-1|2*y0 : 2*y1+0, x 0:56];  contract Y;  window Z;  store Z
//
// Buffers are windows of tensors: a read T[index] inside a compute is served by the buffer that holds T's box there. Whether a
// buffer is a copy or the tensor in place is the target's business, unless `packed` asks for a copy.
#pragma once
#include <memory>
#include <variant>

#include "schedule/schedule.h"

namespace tilewright {

using BufferId = int;

struct Buffer {
  std::string name;
  TensorId tensor = -1;
  DType held = DType::f32;              // accumulators are held in the compute type
  std::vector<Span> box;                // of the tensor, in the variables around the buffer's load or init; a dim with a walk keeps
                                        // what earlier turns have left
  std::vector<std::int64_t> extent;     // of a full box
  bool inner = false;                   // never leaves the kernel
  std::optional<double> outside;        // what every reader takes for elements outside the tensor
  std::optional<ValueAt> at;            // where it lives, if the schedule says so
  std::optional<OperandAt> gathered = {};    // read through slots: an empty micro-tile of it need not be there
};

struct For {
  int step = 0;                         // of the schedule; owns variables 2*step (low) and 2*step + 1 (high)
  std::int64_t extent = 0, size = 1;
  enum class Kind { grid, walk, seq } kind = Kind::grid;
  Turns turns = {};                     // a stream takes only those that are live
  int stages = 1;                       // of its ring: boxes of this iteration and of those already issued (specialise)
};
struct Load {
  BufferId buffer = -1;
  int ahead = 0;                        // iterations of the loop around it by which its copies are issued early (specialise)
};
struct Store { BufferId buffer = -1; };
struct Init { BufferId buffer = -1; Reducer reducer = Reducer::none; };             // the reducer's identity; argmax: no winner yet
struct Compute {
  enum class Kind { contract, window, reduce, map } kind = Kind::map;
  StatementId statement = -1;
  std::vector<Span> ranges;             // one an axis of the statement, to be clipped to [0, extent)
  std::vector<BufferId> reads;          // one an access, in the order of for_each_access(statement)
  BufferId out = -1;
};
struct Call { StatementId node = -1; };                                             // an opaque node
// The threads of a block meet: what they wrote to scratch before it is there behind it. In a ring, all but the copies of the last
// `pending` iterations have arrived.
struct Meet { int pending = 0; };
// In a ring that warps of their own fill. They: until a stage is free. The others: until its boxes are there; and behind their last
// read, when the boxes of this iteration (of the one `kept` before it, which may be read until here) may be overwritten.
struct Pipe {
  enum class Kind { free, full, release } kind = Kind::free;
  int ring = -1;                        // the step of its loop; -1: boxes that stay for the whole tile, a ring of one stage
  int kept = 0;
};

struct Node;
using Block = std::vector<Node>;
struct Node {
  std::variant<For, Load, Store, Init, Compute, Call, Meet, Pipe> op;
  Block body;                           // of a For
};

struct Nest {
  std::string name;
  std::vector<Buffer> buffers;
  std::vector<TensorId> inputs, outputs;
  Block body;
  int variables = 0;
  // Where sums follow their statistics along a stream: the program and region that the statements here are of, the planned ones with
  // the maps that keep and correct. Null: they are the planned ones.
  std::shared_ptr<const Program> program;
  std::shared_ptr<const Region> region;
};
inline const Program& program_of(const Program& planned, const Nest& n) { return n.program ? *n.program : planned; }
inline const Region& region_of(const Region& planned, const Nest& n) { return n.region ? *n.region : planned; }

Nest expand(const Program&, const Region&, const Schedule&, std::string name);      // fixed sizes only
// Adds the barriers that buffers in scratch need, and rings: a loop whose operands have several stages issues the copies of a later
// iteration at its head, into the stage that the last iteration has left; or, where they are brought in bulk, warps of their own
// issue them, and stages are handed over. Read in sequence it is the nest again.
Nest specialise(const Program&, const Nest&);
std::string print(const Program&, const Region&, const Schedule&, const Nest&);

}  // namespace tilewright
