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

// A dim of a tensor whose elements a list names: place i stands for element slot(i) / size % extent, or for the tile's key.
struct Through {
  int slots = -1;                            // of the nest; -1: the dim is as it is
  bool key = false;
  std::int64_t size = 1, extent = 0;         // of one of several axes that are packed together; extent 0: nothing is taken off
  int with = -1;                             // the dim whose places these are too: in scratch the two are one
};

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
  std::vector<Through> through = {};         // one a dim, where some stand for places of a list; else none
};

// A loop through slots visits live micro-tiles only: inside of it an axis is a place in a list of them (loop/through.h). A group's
// list is row `group` of the table of slots, the number of its micro-tiles an element of the counts; both are tensors of the nest's
// program, made ahead of the kernel. A grid's loop goes through one list, a row of the table of tiles for each of its tiles: a key,
// where the tile's part of the list begins and ends, and whether its micro-tiles live (else nothing is read there).
struct Slots {
  int step = -1;                             // the loop
  OperandAt of;                              // whose micro-tiles they are
  TensorId slot = -1, count = -1, tile = -1; // tables; a stream has counts, a grid tiles
  std::int64_t unit = 1, most = 0;           // elements of a micro-tile along the axis; micro-tiles in a list at most
  std::int64_t tiles = 0, keys = 0;          // of a grid: at most; keys: 0 where tiles live or do not
  struct Part { int variable; std::int64_t size, stride; };
  std::vector<Part> group{};                 // its number: the sum of variable / size * stride
};

struct For {
  int step = 0;                         // of the schedule; owns variables 2*step (low) and 2*step + 1 (high)
  std::int64_t extent = 0, size = 1;
  enum class Kind { grid, walk, seq } kind = Kind::grid;
  Turns turns = {};                     // a stream takes only those that are live
  int stages = 1;                       // of its ring: boxes of this iteration and of those already issued (specialise)
  int slots = -1;                       // of the nest: it goes through them; -1: through all of its axis
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
// read, when the boxes of this iteration (of the one `kept` before it, which may be read until here) may be overwritten. Boxes of one
// loop that are first read by different statements are handed over apart: each has stages of its own.
struct Pipe {
  enum class Kind { free, full, release } kind = Kind::free;
  int ring = -1;                        // the step of its loop; -1: boxes that stay for the whole tile
  int kept = 0;
  std::vector<BufferId> boxes = {};     // that are handed over
  int stages = 1;
  bool apart = false;                   // the loop has other pipes
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
  std::vector<Slots> slots = {};
  // Where sums follow their statistics along a stream: the program and region that the statements here are of, the planned ones with
  // the maps that keep and correct. Null: they are the planned ones.
  std::shared_ptr<const Program> program;
  std::shared_ptr<const Region> region;
  // Where axes are packed together: the schedule of that region.
  std::shared_ptr<const Schedule> schedule = nullptr;
};
inline const Program& program_of(const Program& planned, const Nest& n) { return n.program ? *n.program : planned; }
inline const Region& region_of(const Region& planned, const Nest& n) { return n.region ? *n.region : planned; }
inline const Schedule& schedule_of(const Schedule& planned, const Nest& n) { return n.schedule ? *n.schedule : planned; }

Nest expand(const Program&, const Region&, const Schedule&, std::string name);      // fixed sizes only
// Adds the barriers that buffers in scratch need, and rings: a loop whose operands have several stages issues the copies of a later
// iteration at its head, into the stage that the last iteration has left; or, where they are brought in bulk, warps of their own
// issue them, and stages are handed over. Read in sequence it is the nest again.
Nest specialise(const Program&, const Nest&);
std::string print(const Program&, const Region&, const Schedule&, const Nest&);

}  // namespace tilewright
