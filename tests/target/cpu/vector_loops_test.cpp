#include "target/cpu/vector_testing.h"

namespace tilewright::kernels {
namespace {

using VectorLoopsTest = OnEveryIsa;
TW_ON_EVERY_ISA(VectorLoopsTest);

constexpr DType all_dtypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2,
                                DType::i8,  DType::u8,  DType::i32, DType::i64,  DType::boolean};

double storable(Random& random, DType type) {
  if (type == DType::boolean) return double(random.in(0, 1));
  if (type == DType::u8) return double(random.in(0, 255));
  if (type == DType::i8) return double(random.in(-128, 127));
  return is_float(type) ? random.real(-9, 9) : double(random.in(-100000, 100000));
}

TEST_P(VectorLoopsTest, LoadsAndStoresEveryTypeWithAnyStrideAndMask) {
  for (int seed = 0; seed < cases(300); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(static_cast<unsigned>(seed));
    const DType type = all_dtypes[seed % 11];
    const std::int64_t lanes = random.in(1, 600), rows = random.in(1, 3);
    const std::int64_t from_lane = random.of<std::int64_t>({0, 1, 1, 2, 3}),
                       to_lane = random.of<std::int64_t>({1, 1, 2});
    const std::int64_t from_row = random.in(0, 3), to_row = lanes * to_lane + random.in(0, 2);
    const bool load_masked = random.chance(0.4), store_masked = random.chance(0.3);
    Stored in(type, (rows - 1) * from_row + (lanes - 1) * from_lane + 1),
        out(type, (rows - 1) * to_row + (lanes - 1) * to_lane + 1);
    Stored mask(DType::boolean, lanes);
    for (std::int64_t i = 0; i < in.count(); ++i) in.set(i, storable(random, type));
    for (std::int64_t i = 0; i < lanes; ++i) mask.set(i, double(random.in(0, 1)));
    VectorProgram p;
    p.registers = {register_type(type), Type::b8};
    p.block = 64 * static_cast<int>(random.in(1, 4));
    Instruction read = load(0, type, 0, load_masked ? 1 : -1);
    read.real = 1, read.integer = 1;
    p.body = {load(1, DType::boolean, 1), read, store(0, type, 2, store_masked ? 1 : -1)};
    const Pointer at[] = {{in.data(), from_lane, 0, from_row}, {mask.data()}, {out.data(), to_lane, 0, to_row}};
    execute(leaf(), p, {.pointers = at, .lanes = lanes, .outer = rows});
    std::vector<bool> written(static_cast<std::size_t>(out.count()), false);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t l = 0; l < lanes; ++l) {
        const bool on = mask.get(l) != 0;
        if (store_masked && !on) continue;
        const std::int64_t to = r * to_row + l * to_lane;
        written[static_cast<std::size_t>(to)] = true;
        ASSERT_EQ(out.get(to), load_masked && !on ? 1.0 : in.get(r * from_row + l * from_lane))
            << name_of(type) << " row " << r << " lane " << l;
      }
    for (std::int64_t i = 0; i < out.count(); ++i)
      ASSERT_TRUE(written[static_cast<std::size_t>(i)] || out.untouched(i)) << name_of(type) << i;
  }
}

TEST_P(VectorLoopsTest, AMaskKeepsLoadsInsideTheirMemory) { // lanes that are off lie behind the guard page
  for (DType type : all_dtypes)
    for (std::int64_t valid : {1, 5, 16, 33}) {
      Stored in(type, valid), out(type, 40);
      for (std::int64_t i = 0; i < valid; ++i) in.set(i, 1);
      VectorProgram p;
      p.registers = {register_type(type), Type::b8, Type::i64, Type::i64};
      p.setup = {constant(3, Type::i64, valid)};
      p.body = {index(2, 0), binary(Op::lt, Type::i64, 1, 2, 3), load(0, type, 0, 1), store(0, type, 1)};
      const Pointer at[] = {{in.data()}, {out.data()}};
      const IndexValue indices[] = {{}};
      execute(leaf(), p, {.pointers = at, .indices = indices, .lanes = 40});
      for (std::int64_t i = 0; i < 40; ++i) ASSERT_EQ(out.get(i), i < valid ? 1.0 : 0.0) << name_of(type);
    }
}

TEST_P(VectorLoopsTest, GatherAndScatter) {
  for (DType type : all_dtypes) {
    Random random(static_cast<unsigned>(type));
    const std::int64_t lanes = 333, size = 50;
    Stored in(type, size), out(type, lanes), offset(DType::i64, lanes), place(DType::i64, lanes),
        mask(DType::boolean, lanes);
    std::vector<std::int64_t> permutation(static_cast<std::size_t>(lanes));
    for (std::int64_t i = 0; i < lanes; ++i) permutation[static_cast<std::size_t>(i)] = i;
    std::shuffle(permutation.begin(), permutation.end(), random.engine());
    for (std::int64_t i = 0; i < size; ++i) in.set(i, storable(random, type));
    for (std::int64_t i = 0; i < lanes; ++i) {
      mask.set(i, double(random.in(0, 1)));
      offset.as<std::int64_t>()[i] = mask.get(i) != 0 ? random.in(0, size - 1) : 1 << 30; // far outside
      place.as<std::int64_t>()[i] = permutation[static_cast<std::size_t>(i)];
    }
    VectorProgram p;
    p.registers = {register_type(type), Type::b8, Type::i64, Type::i64};
    p.body = {load(1, DType::boolean, 4), load(2, DType::i64, 2), load(3, DType::i64, 3), gather(0, type, 0, 2, 1),
              scatter(0, type, 1, 3)};
    const Pointer at[] = {{in.data()}, {out.data()}, {offset.data()}, {place.data()}, {mask.data()}};
    execute(leaf(), p, {.pointers = at, .lanes = lanes});
    for (std::int64_t i = 0; i < lanes; ++i)
      ASSERT_EQ(out.get(permutation[static_cast<std::size_t>(i)]),
                mask.get(i) != 0 ? in.get(offset.as<std::int64_t>()[i]) : 0.0)
          << name_of(type);
  }
}

TEST_P(VectorLoopsTest, IndexFollowsLanesAndSteps) {
  Stored out(DType::i64, 3 * 2 * 300);
  VectorProgram p;
  p.registers = {Type::i64};
  p.body = {index(0, 0), store(0, DType::i64, 0)};
  const Pointer at[] = {{out.data(), 1, 300, 600}};
  const IndexValue indices[] = {{7, 3, 1000, -50}};
  execute(leaf(), p, {.pointers = at, .indices = indices, .lanes = 300, .inner = 2, .outer = 3});
  for (std::int64_t o = 0; o < 3; ++o)
    for (std::int64_t i = 0; i < 2; ++i)
      for (std::int64_t l = 0; l < 300; ++l)
        ASSERT_EQ(out.get(o * 600 + i * 300 + l), double(7 + 3 * l + 1000 * i - 50 * o));
}

// A reduction over the inner loop, over the lanes, or over both, equals the plain loops. Integers and doubles of
// integers: exact.
void check_sums(const Kernels& leaf, bool lanes_reduced, std::int64_t lanes, std::int64_t inner, std::int64_t outer,
                int block) {
  Stored in(DType::f64, std::max<std::int64_t>(outer * inner * lanes, 1)),
      out(DType::f64, outer * (lanes_reduced ? 1 : std::max<std::int64_t>(lanes, 1)));
  for (std::int64_t i = 0; i < in.count(); ++i) in.set(i, double(i * 7 % 31));
  VectorProgram p;
  p.registers = {Type::f64, Type::f64};
  p.block = block;
  p.lanes_reduced = lanes_reduced;
  p.begin = {constant(0, Type::f64, 0.0)};
  p.body = {load(1, DType::f64, 0), binary(Op::add, Type::f64, 0, 0, 1)};
  if (lanes_reduced) p.end.push_back(unary(Op::reduce_sum, Type::f64, 0, 0));
  p.end.push_back(store(0, DType::f64, 1));
  const Pointer at[] = {{in.data(), 1, lanes, lanes * inner}, {out.data(), 1, 0, lanes_reduced ? 1 : lanes}};
  execute(leaf, p, {.pointers = at, .lanes = lanes, .inner = inner, .outer = outer});
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t l = 0; l < (lanes_reduced ? 1 : lanes); ++l) {
      double sum = 0;
      for (std::int64_t i = 0; i < inner; ++i)
        for (std::int64_t k = lanes_reduced ? 0 : l; k < (lanes_reduced ? lanes : l + 1); ++k)
          sum += in.get((o * inner + i) * lanes + k);
      ASSERT_EQ(out.get(lanes_reduced ? o : o * lanes + l), sum)
          << lanes_reduced << " lanes " << lanes << " inner " << inner << " block " << block;
    }
}

TEST_P(VectorLoopsTest, SumsOverLanesAndSteps) {
  for (bool lanes_reduced : {false, true})
    for (std::int64_t lanes : {0, 1, 3, 63, 64, 65, 255, 256, 257, 600})
      for (std::int64_t inner : {0, 1, 4})
        for (int block : {64, 256}) check_sums(leaf(), lanes_reduced, lanes, inner, 3, block);
}

template <class T> void check_horizontal(const Kernels& leaf, unsigned seed) {
  Random random(seed);
  const std::int64_t lanes = random.in(1, 256);
  std::vector<T> in(static_cast<std::size_t>(lanes));
  for (T& v : in) v = static_cast<T>(random.in(-9, 9));
  if constexpr (std::is_floating_point_v<T>)
    if (random.chance(0.3)) in[static_cast<std::size_t>(random.in(0, lanes - 1))] = std::numeric_limits<T>::quiet_NaN();
  const Type type = type_of<T>();
  T product = 1, out[4];
  for (std::int64_t i = 0; i < lanes; ++i)
    product = static_cast<T>(static_cast<std::uint64_t>(1)); // products of +-1 below
  std::vector<T> signs(in.size());
  for (T& v : signs) v = random.chance(0.5) ? T(1) : T(-1), product = static_cast<T>(product * v);
  VectorProgram p;
  p.lanes_reduced = true;
  p.registers = {type, type, type, type};
  for (int r = 0; r < 3; ++r) p.body.push_back(load(r, storage_of(type), 0));
  p.body.push_back(load(3, storage_of(type), 1));
  const Op ops[] = {Op::reduce_sum, Op::reduce_max, Op::reduce_min, Op::reduce_prod};
  for (int r = 0; r < 4; ++r)
    p.end.push_back(unary(ops[r], type, r, r)), p.end.push_back(store(r, storage_of(type), 2 + r));
  const Pointer at[] = {{in.data()}, {signs.data()}, {out}, {out + 1}, {out + 2}, {out + 3}};
  execute(leaf, p, {.pointers = at, .lanes = lanes});
  T sum = 0, high = in[0], low = in[0];
  for (T v : in) {
    sum += v;
    high = v != v || high != high ? (v != v ? v : high) : std::max(high, v);
    low = v != v || low != low ? (v != v ? v : low) : std::min(low, v);
  }
  EXPECT_TRUE(same(out[0], sum) && same(out[1], high) && same(out[2], low) && same(out[3], product))
      << "lanes " << lanes << " seed " << seed;
}

TEST_P(VectorLoopsTest, HorizontalReductions) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    check_horizontal<float>(leaf(), seed);
    check_horizontal<double>(leaf(), seed);
    check_horizontal<std::int32_t>(leaf(), seed);
    check_horizontal<std::int64_t>(leaf(), seed);
  }
}

TEST_P(VectorLoopsTest, AnyAndAll) {
  for (std::int64_t lanes : {1, 2, 31, 200, 300})
    for (std::int64_t odd : {-1, 0, 150}) { // one lane that differs
      for (int common : {0, 1}) {
        std::vector<std::uint8_t> in(static_cast<std::size_t>(lanes), static_cast<std::uint8_t>(common));
        if (odd >= 0 && odd < lanes) in[static_cast<std::size_t>(odd)] ^= 1;
        VectorProgram p;
        p.lanes_reduced = true;
        p.registers = {Type::b8, Type::b8, Type::b8};
        p.begin = {constant(0, Type::b8, std::int64_t(0)), constant(1, Type::b8, std::int64_t(1))};
        p.body = {load(2, DType::boolean, 0), binary(Op::bit_or, Type::b8, 0, 0, 2),
                  binary(Op::bit_and, Type::b8, 1, 1, 2)};
        p.end = {unary(Op::reduce_any, Type::b8, 0, 0), unary(Op::reduce_all, Type::b8, 1, 1),
                 store(0, DType::boolean, 1), store(1, DType::boolean, 2)};
        std::uint8_t any = 9, all = 9;
        const Pointer at[] = {{in.data()}, {&any}, {&all}};
        execute(leaf(), p, {.pointers = at, .lanes = lanes});
        EXPECT_EQ(any, std::count(in.begin(), in.end(), 1) > 0);
        EXPECT_EQ(all, std::count(in.begin(), in.end(), 0) == 0);
      }
    }
}

template <class T> void check_winner(const Kernels& leaf, bool greatest, bool lanes_reduced, unsigned seed) {
  Random random(seed);
  const std::int64_t lanes = random.in(1, 400), inner = random.in(1, 5), axis = lanes_reduced ? lanes * inner : inner;
  std::vector<T> in(static_cast<std::size_t>(lanes * inner));
  for (T& v : in) v = static_cast<T>(random.in(-3, 3)); // many equal ones
  if constexpr (std::is_floating_point_v<T>)
    for (int i = 0; i < 3 && seed % 2; ++i)
      in[static_cast<std::size_t>(random.in(0, lanes * inner - 1))] = std::numeric_limits<T>::quiet_NaN();
  const Type type = type_of<T>();
  VectorProgram p;
  p.lanes_reduced = lanes_reduced;
  p.registers = {type, Type::i64, type, Type::i64};
  // The identity: an index behind all others, and the worst value.
  if constexpr (std::is_floating_point_v<T>)
    p.begin = {constant(0, type, greatest ? -HUGE_VAL : HUGE_VAL)};
  else
    p.begin = {
        constant(0, type, std::int64_t(greatest ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max()))};
  p.begin.push_back(constant(1, Type::i64, INT64_MAX));
  p.body = {load(2, storage_of(type), 0), index(3, 0),
            pair(greatest ? Op::fold_argmax : Op::fold_argmin, type, 0, 1, 2, 3)};
  if (lanes_reduced) p.end = {pair(greatest ? Op::reduce_argmax : Op::reduce_argmin, type, 0, 1, 0, 1)};
  p.end.push_back(store(1, DType::i64, 1));
  std::vector<std::int64_t> out(static_cast<std::size_t>(lanes_reduced ? 1 : lanes));
  const Pointer at[] = {{in.data(), 1, lanes}, {out.data()}};
  const IndexValue indices[] = {lanes_reduced ? IndexValue{0, 1, lanes, 0} : IndexValue{0, 0, 1, 0}};
  execute(leaf, p, {.pointers = at, .indices = indices, .lanes = lanes, .inner = inner});
  for (std::size_t l = 0; l < out.size(); ++l) {
    std::int64_t best = 0;
    const auto value = [&](std::int64_t i) {
      return in[lanes_reduced ? static_cast<std::size_t>(i) : static_cast<std::size_t>(i * lanes) + l];
    };
    for (std::int64_t i = 1; i < axis; ++i) {
      const T v = value(i), held = value(best);
      if (v != v ? held == held : held == held && (greatest ? v > held : v < held)) best = i;
    }
    ASSERT_EQ(out[l], best) << "seed " << seed << " lanes " << lanes << " inner " << inner << " reduced "
                            << lanes_reduced << " greatest " << greatest;
  }
}

TEST_P(VectorLoopsTest, TheFirstWinnerIsFound) {
  for (unsigned seed = 0; seed < 60; ++seed)
    for (bool greatest : {false, true})
      for (bool lanes_reduced : {false, true}) {
        check_winner<float>(leaf(), greatest, lanes_reduced, seed);
        check_winner<double>(leaf(), greatest, lanes_reduced, seed);
        check_winner<std::int32_t>(leaf(), greatest, lanes_reduced, seed);
        check_winner<std::int64_t>(leaf(), greatest, lanes_reduced, seed);
      }
}

TEST_P(VectorLoopsTest, SumsAreTheSameTreeOnEveryTable) {
  Random random(5);
  std::vector<float> in(777);
  for (float& v : in) v = static_cast<float>(random.real());
  VectorProgram p;
  p.lanes_reduced = true;
  p.registers = {Type::f32, Type::f32};
  p.begin = {constant(0, Type::f32, 0.0)};
  p.body = {load(1, DType::f32, 0), binary(Op::add, Type::f32, 0, 0, 1)};
  p.end = {unary(Op::reduce_sum, Type::f32, 0, 0), store(0, DType::f32, 1)};
  float here = 0, base = 0;
  const Pointer at[] = {{in.data()}, {&here}}, at_base[] = {{in.data()}, {&base}};
  execute(leaf(), p, {.pointers = at, .lanes = 777});
  execute(kernels_for(Isa::base), p, {.pointers = at_base, .lanes = 777});
  EXPECT_EQ(here, base);
}

} // namespace
} // namespace tilewright::kernels
