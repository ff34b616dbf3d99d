// Times the leaves at the shapes of a MobileNetV2 on one core: GFLOP/s of contract and window, nanoseconds an element
// of the interpreter.
//
//   bench_kernels [isa]        everything on the best instruction set that runs here, or on the one named
//
// Operands fit in the caches, as a block of a planned nest does; the median of many runs is printed,
// in processor time of this thread, so that other processes disturb less.
#include "target/cpu/kernels/kernels.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>

using namespace tilewright;
using namespace tilewright::kernels;

namespace {

double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class F> double median_seconds(F&& run) {
  std::vector<double> times;
  double total = 0;
  while (total < 0.15 || times.size() < 20) {
    const double begin = thread_seconds();
    run();
    times.push_back(thread_seconds() - begin);
    total += times.back();
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

struct Floats {
  explicit Floats(std::int64_t n)
      : size(n), data(static_cast<float*>(std::aligned_alloc(64, static_cast<std::size_t>((n + 63) / 16 * 16) * 4))) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> in(-1, 1);
    for (std::int64_t i = 0; i < n; ++i) data[i] = in(random);
  }
  ~Floats() { std::free(data); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  std::int64_t size;
  float* data;
};

void time_contract(const Kernels& leaf, std::int64_t m, std::int64_t k, std::int64_t n, bool residual) {
  Floats a(m * k), w(n * k), b(packed_elements(leaf, n, k)), bias(n), c(m * n), other(m * n);
  leaf.pack_b({.n = n, .k = k, .src = w.data, .b_k = 1, .b_n = k, .dst = b.data});
  EpilogueStep steps[3] = {
      {.op = StepOp::add, .operand = bias.data}, {.op = StepOp::max, .a = 0.0f}, {.op = StepOp::min, .a = 6.0f}};
  if (residual) steps[1] = {.op = StepOp::add, .operand = other.data, .rows = {n}};
  const Contract call = {.m = m,
                         .n = n,
                         .k = k,
                         .a = a.data,
                         .a_rows = {k},
                         .b = b.data,
                         .c = c.data,
                         .c_rows = {n},
                         .epilogue = {steps, residual ? 2 : 3}};
  const double seconds = median_seconds([&] { leaf.contract(call); });
  std::printf("contract M=%-6ld K=%-4ld N=%-4ld %s %9.1f us  %6.1f GFLOP/s\n", long(m), long(k), long(n),
              residual ? "residual" : "relu6   ", seconds * 1e6, 2.0 * double(m * n * k) / seconds * 1e-9);
}

void time_window(const Kernels& leaf, std::int64_t size, std::int64_t c, std::int64_t stride) {
  const std::int64_t out = (size - 1) / stride + 1, padded = size + 2;
  Floats a(padded * padded * c), w(9 * c), bias(c), y(out * out * c);
  std::int64_t taps[9];
  for (int i = 0; i < 9; ++i) taps[i] = (i / 3 * padded + i % 3) * c;
  const EpilogueStep steps[3] = {
      {.op = StepOp::add, .operand = bias.data}, {.op = StepOp::max, .a = 0.0f}, {.op = StepOp::min, .a = 6.0f}};
  const double seconds = median_seconds([&] {
    for (std::int64_t row = 0; row < out; ++row)
      leaf.window({.x = out,
                   .c = c,
                   .taps = 9,
                   .a = a.data + row * stride * padded * c,
                   .a_rows = {stride * c},
                   .tap_offset = taps,
                   .w = w.data,
                   .w_t = c,
                   .out = y.data + row * out * c,
                   .out_rows = {c},
                   .epilogue = {steps, 3}});
  });
  std::printf("window   %3ldx%-3ld C=%-4ld s%ld          %9.1f us  %6.1f GFLOP/s\n", long(size), long(size), long(c),
              long(stride), seconds * 1e6, 18.0 * double(out * out * c) / seconds * 1e-9);
}

void time_slide(const Kernels& leaf, std::int64_t size, std::int64_t c, std::int64_t taps, std::int64_t stride) {
  const std::int64_t out = (size - 1) / stride + 1, before = taps / 2;
  Floats a(size * size * c), w(taps * taps * c), bias(c), y(out * out * c);
  const EpilogueStep steps[3] = {
      {.op = StepOp::add, .operand = bias.data}, {.op = StepOp::max, .a = 0.0f}, {.op = StepOp::min, .a = 6.0f}};
  const Slide call = {.y = out,
                      .x = out,
                      .c = c,
                      .taps_y = taps,
                      .taps_x = taps,
                      .row = -before,
                      .row_step = stride,
                      .rows = size,
                      .column = -before,
                      .column_step = stride,
                      .columns = size,
                      .a = a.data,
                      .a_row = size * c,
                      .a_column = c,
                      .w = w.data,
                      .w_tap = c,
                      .out = y.data,
                      .out_row = out * c,
                      .out_column = c,
                      .epilogue = {steps, 3}};
  const double seconds = median_seconds([&] { leaf.slide(call); });
  std::printf("slide    %3ldx%-3ld C=%-4ld %ldx%ld s%ld      %9.1f us  %6.1f GFLOP/s\n", long(size), long(size),
              long(c), long(taps), long(taps), long(stride), seconds * 1e6,
              2.0 * double(taps * taps * out * out * c) / seconds * 1e-9);
}

// out[r, l] from x[r, l] and bias[l], or one number a row where lanes are reduced.
void time_interpreter(const Kernels& leaf, const char* what, const VectorProgram& program, std::int64_t rows,
                      std::int64_t lanes) {
  Floats x(rows * lanes), bias(lanes), y(rows * lanes);
  const VectorCode code = prepare(program);
  Floats scratch(code.scratch_bytes / 4);
  const Pointer at[] = {{x.data, 1, 0, lanes}, {bias.data, 1, 0, 0}, {y.data, 1, 0, program.lanes_reduced ? 1 : lanes}};
  const double seconds = median_seconds(
      [&] { run(leaf, code, {.pointers = at, .lanes = lanes, .outer = rows, .scratch = scratch.data}); });
  std::printf("%-22s %4ld x %-4ld %9.1f us  %6.2f elements/ns\n", what, long(rows), long(lanes), seconds * 1e6,
              double(rows * lanes) / seconds * 1e-9);
}

void time_programs(const Kernels& leaf) {
  VectorProgram relu;
  relu.registers = {Type::f32, Type::f32, Type::f32};
  relu.setup = {constant(2, Type::f32, 0.0)};
  relu.body = {load(0, DType::f32, 0), load(1, DType::f32, 1), binary(Op::add, Type::f32, 0, 0, 1),
               binary(Op::max, Type::f32, 0, 0, 2), store(0, DType::f32, 2)};
  VectorProgram sum;
  sum.registers = {Type::f32, Type::f32};
  sum.lanes_reduced = true;
  sum.begin = {constant(0, Type::f32, 0.0)};
  sum.body = {load(1, DType::f32, 0), binary(Op::add, Type::f32, 0, 0, 1)};
  sum.end = {unary(Op::reduce_sum, Type::f32, 0, 0), store(0, DType::f32, 2)};
  for (std::int64_t lanes : {64, 200, 1000}) {
    time_interpreter(leaf, "relu(x + bias)", relu, 50, lanes);
    time_interpreter(leaf, "sum over lanes", sum, 50, lanes);
  }
  for (Op op : {Op::exp, Op::log, Op::tanh, Op::erf, Op::sin, Op::sqrt}) {
    VectorProgram function;
    function.registers = {Type::f32};
    function.body = {load(0, DType::f32, 0), unary(op, Type::f32, 0, 0), store(0, DType::f32, 2)};
    const char* names[] = {"exp", "log", "tanh", "erf", "sin", "sqrt"};
    const Op ops[] = {Op::exp, Op::log, Op::tanh, Op::erf, Op::sin, Op::sqrt};
    time_interpreter(leaf, names[std::find(ops, ops + 6, op) - ops], function, 8, 1000);
  }
}

} // namespace

int main(int argc, char** argv) {
  const Isa isa = argc > 1 ? parse_isa(argv[1]) : available_isas().front();
  const Kernels& leaf = kernels_for(isa);
  std::printf("%s: %d lanes, tile %d x %d\n", std::string(name_of(isa)).c_str(), leaf.lanes, leaf.mr, leaf.nr);
  const std::int64_t shapes[][3] = {{12544, 32, 16},  {12544, 16, 96}, {3136, 96, 24},  {3136, 144, 24},
                                    {3136, 24, 144},  {784, 144, 32},  {784, 32, 192},  {196, 64, 384},
                                    {196, 384, 64},   {196, 576, 96},  {49, 160, 960},  {49, 960, 320},
                                    {49, 320, 1280},  {1, 1280, 1000}, {12544, 27, 32}, {128, 768, 768},
                                    {128, 3072, 768}, {64, 512, 256},  {64, 1024, 256}, {64, 2048, 64}};
  for (const auto& s : shapes) time_contract(leaf, s[0], s[1], s[2], false);
  time_contract(leaf, 3136, 144, 24, true);
  for (std::int64_t stride : {1, 2}) {
    time_window(leaf, 112, 32, stride);
    time_window(leaf, 56, 144, stride);
    time_window(leaf, 14, 384, stride);
    time_window(leaf, 7, 960, stride);
  }
  for (std::int64_t stride : {1, 2}) {
    for (std::int64_t taps : {3, 5}) {
      time_slide(leaf, 112, 32, taps, stride);
      time_slide(leaf, 56, 144, taps, stride);
      time_slide(leaf, 28, 240, taps, stride);
      time_slide(leaf, 14, 384, taps, stride);
      time_slide(leaf, 7, 960, taps, stride);
    }
  }
  time_slide(leaf, 56, 24, 3, 1);
  time_slide(leaf, 56, 96, 7, 1);
  time_slide(leaf, 14, 512, 3, 1);
  time_slide(leaf, 7, 768, 7, 1);
  time_programs(leaf);
  return 0;
}
