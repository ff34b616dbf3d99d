// From scalar bodies to instructions of the block-vector interpreter, in four sections; the first half of compile_lanes.
//
// A read out of range and an integer division by zero are values like any other: `select`, `else`, `and`, `or` and guards pass
// on only the faults of what they chose, as in the evaluator; what arrives is kept in flags that the caller looks at.
#pragma once
#include <array>
#include <map>

#include "target/cpu/lane_program.h"

namespace tilewright::cpu {

DType dtype_of(kernels::Type);                      // what such a register holds

class LaneEmitter {
 public:
  LaneEmitter(const Program& p, const Region& r, const Nest& nest, const Group& g, const std::vector<Stored>& buffers,
              const std::vector<bool>& live, bool lanes_reduced)
      : p_(p), r_(r), nest_(nest), group_(g), buffers_(buffers), live_(live), lanes_reduced_(lanes_reduced) {}

  void run();                                       // fills program() and the pointer and index lists
  kernels::VectorProgram program;
  std::vector<LaneProgram::PointerOf> pointers;
  std::vector<LaneProgram::IndexOf> indices;
  std::vector<LaneProgram::Fault> faults;

 private:
  enum Section { setup, begin, body, end, sections };
  using Register = int;
  // The lanes where something went wrong, a mask for each cause; -1: none.
  using Faults = std::array<Register, LaneProgram::causes>;
  static constexpr Faults no_faults{-1, -1};
  struct Known { Register value; Faults faults; };

  std::vector<kernels::Instruction>& code();
  Register fresh(kernels::Type);
  Register emit(const ScalarRef&);                  // the value, in register_type(dtype)
  Register emit_as(const ScalarRef&, DType compute);
  std::pair<Register, Faults> emit_apart(const ScalarRef&, DType compute);
  Register emit_node(const ScalarRef&);
  Register selection(const Scalar&);
  Register operation(const Scalar&);
  Register constant_of(DType compute, double real, std::int64_t integer);
  Register convert(Register, kernels::Type from, DType to);
  Register read(const Access&);
  Register load(const Access&, const std::vector<Register>& at, Register mask, double outside);
  Register index(const Index&);                     // i64
  Register affine_index(const Index&);
  Register index_sum(Register sum, const Index::Term&);
  Register in_bounds(const Access&, std::vector<Register>* index_registers, bool check);
  Register both(Register a, Register b);            // conjunction of masks; -1 is true
  int pointer(BufferId, DType, std::int64_t offset, std::vector<std::int64_t> axis);
  int pointer_of(const Access&, BufferId);
  Register negated(Register mask);
  void add_fault(LaneProgram::Cause, Register bad);
  void add_faults(const Faults&, Register where = -1);
  void add_faults_outside(const Faults&, Register mask);
  void add_undefined(const Scalar&, kernels::Type, Register a, Register b);
  void keep_faults(int statement, Register guard);
  void store_faults();
  void store(int statement, Register value);
  void guarded(const ScalarRef& guard, int statement);
  void map(int statement);
  void reduction(int statement);
  void accumulate(const Statement&, Register value, Register index);
  void horizontal(const Statement&);
  void start_accumulator(const Statement&);
  void load_accumulator(int statement, bool then_store);
  BufferId buffer_of(TensorId) const;
  ScalarRef over_region(const ScalarRef&, int statement) const;
  Register as_declared(int statement, Register);

  const Program& p_;
  const Region& r_;
  const Nest& nest_;
  const Group& group_;
  const std::vector<Stored>& buffers_;
  const std::vector<bool>& live_;
  const bool lanes_reduced_;
  Section section_ = body;
  std::map<const Scalar*, Known> known_[sections];
  std::vector<ScalarRef> alive_;                    // keeps the substituted bodies, whose addresses are keys
  std::map<std::pair<int, std::int64_t>, Register> constants_;   // by type and bits
  std::map<TensorId, Register> inner_;              // values of the group's earlier statements at this point
  Register guard_ = -1, accumulator_ = -1, winner_ = -1;
  Faults faults_ = no_faults;                       // of what is being emitted
  Faults kept_ = no_faults;                         // of all statements so far
};

}  // namespace tilewright::cpu
