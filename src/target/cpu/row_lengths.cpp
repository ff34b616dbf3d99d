#include "target/cpu/row_lengths.h"

namespace tilewright::cpu {

namespace {

constexpr std::int64_t line = 64, far = 1024; // bytes: a cache line, and what rows should not be a multiple of apart
constexpr std::int64_t long_row = 192;        // elements that are worth being aligned

std::int64_t row_length(std::int64_t n, std::int64_t width) {
  const std::int64_t elements = line / width;
  if (n * width % far == 0) return n + elements;
  return n >= long_row ? ceil_div_i64(n, elements) * elements : n;
}

}  // namespace

std::vector<bool> may_have_gaps(const Plan& plan) {
  const Program& p = *plan.program;
  std::vector<bool> may(p.tensors.size());
  for (std::size_t t = 0; t < may.size(); ++t)
    may[t] = p.tensors[t].kind == Kind::intermediate && p.tensors[t].dtype == DType::f32 && p.tensors[t].dims.size() > 1;
  const auto seen = [&](TensorId t) {
    if (t >= 0) may[static_cast<std::size_t>(t)] = false;
  };
  for (TensorId t : p.inputs) seen(t);
  for (TensorId t : p.outputs) seen(t);
  for (TensorId t : p.results()) seen(t);
  for (const PlannedKernel& k : plan.kernels) {
    for (const OperandAt& o : k.schedule.operands) seen(o.tensor), seen(o.source);
    if (k.region) continue;
    const Opaque& o = std::get<Opaque>(p.nodes[static_cast<std::size_t>(k.opaque)]);
    for (TensorId t : o.in) seen(t);
    for (TensorId t : o.out) seen(t);
  }
  return may;
}

RowLengths row_lengths(const Plan& plan) {
  RowLengths rows(plan.program->tensors.size(), 0);
  const std::vector<bool> may = may_have_gaps(plan);
  for (std::size_t t = 0; t < rows.size(); ++t) {
    if (!may[t]) continue;
    const Tensor& tensor = plan.program->tensors[t];
    const auto inner = static_cast<std::size_t>(plan.layouts[t].back());
    rows[t] = row_length(tensor.dims[inner].constant(), static_cast<std::int64_t>(bytes_of(tensor.dtype)));
  }
  return rows;
}

std::vector<std::int64_t> strides_of_rows(std::vector<std::int64_t> dims, const DimOrder& order, std::int64_t row) {
  if (row > 0) dims[static_cast<std::size_t>(order.back())] = row;
  return dense_strides(dims, order);
}

std::int64_t elements_of_rows(const std::vector<std::int64_t>& dims, const DimOrder& order, std::int64_t row) {
  std::int64_t n = 1;
  for (std::size_t d = 0; d < dims.size(); ++d)
    n = checked_mul(n, row > 0 && static_cast<int>(d) == order.back() ? row : dims[d]);
  return n;
}

std::vector<std::int64_t> bytes_of_rows(const Plan& plan, const RowLengths& rows) {
  std::vector<std::int64_t> list;
  for (std::size_t t = 0; t < rows.size(); ++t) {
    const Tensor& tensor = plan.program->tensors[t];
    std::vector<std::int64_t> dims;
    for (const Size& d : tensor.dims) dims.push_back(d.constant());
    list.push_back(checked_mul(elements_of_rows(dims, plan.layouts[t], rows[t]), static_cast<std::int64_t>(bytes_of(tensor.dtype))));
  }
  return list;
}

}  // namespace tilewright::cpu
