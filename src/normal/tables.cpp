#include <algorithm>
#include <cstring>
#include <cstdlib>
#include <limits>

#include "normal/masks.h"

namespace tilewright {

namespace {

constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();

// The elements for which `second - first` (or `second` alone) lies in [low, high], if those are the ones that say yes.
struct Band { int first, second; std::int64_t low = none, high = -none; };

class Reading {
 public:
  explicit Reading(const Tensor& t) : t_(t) {
    for (const Size& d : t.dims) dims_.push_back(d.constant()), count_ *= dims_.back();
  }

  std::optional<Table> run() {
    if (count_ <= 0 || count_ > std::int64_t{1} << 24 || dims_.size() > 4 || !find_values()) return std::nullopt;
    for (int b = 0; b < static_cast<int>(dims_.size()); ++b)
      for (int a = -1; a < b; ++a)
        if (extent(b) > 1 && (a < 0 || extent(a) > 1)) bands_.push_back({a, b});
    each([&](std::int64_t i, const std::vector<std::int64_t>& at) {
      if (value(i) != yes_) return;
      for (Band& band : bands_) band.low = std::min(band.low, place(band, at)), band.high = std::max(band.high, place(band, at));
    });
    each([&](std::int64_t i, const std::vector<std::int64_t>& at) {
      if (value(i) == yes_) return;
      bands_.erase(std::remove_if(bands_.begin(), bands_.end(), [&](const Band& band) {
        return band.low <= place(band, at) && place(band, at) <= band.high;
      }), bands_.end());
    });
    if (bands_.empty()) return std::nullopt;
    return Table{condition(bands_[0]), yes_, no_};
  }

 private:
  const Tensor& t_;
  std::vector<std::int64_t> dims_;
  std::int64_t count_ = 1;
  double yes_ = 0, no_ = 0;
  std::vector<Band> bands_;

  std::int64_t extent(int d) const { return dims_[static_cast<std::size_t>(d)]; }

  double value(std::int64_t i) const {
    const std::byte* at = t_.data.data() + i * static_cast<std::int64_t>(bytes_of(t_.dtype));
    if (t_.dtype == DType::boolean) return *at != std::byte{0};
    if (t_.dtype == DType::f64) {
      double v = 0;
      std::memcpy(&v, at, sizeof v);
      return v;
    }
    float v = 0;
    std::memcpy(&v, at, sizeof v);
    return static_cast<double>(v);
  }

  // Two values and no NaN: true and false, or 0 (yes) and another.
  bool find_values() {
    const bool flags = t_.dtype == DType::boolean;
    yes_ = flags ? 1 : 0;
    bool any_yes = false, any_no = false;
    for (std::int64_t i = 0; i < count_; ++i) {
      const double v = value(i);
      if (v == yes_) any_yes = true;
      else if (!any_no) any_no = true, no_ = v;
      else if (v != no_) return false;
    }
    return any_yes && any_no && no_ == no_;
  }

  template <class F> void each(F f) const {
    std::vector<std::int64_t> at(dims_.size(), 0);
    for (std::int64_t i = 0; i < count_; ++i) {
      f(i, at);
      for (std::size_t d = at.size(); d-- > 0;) {
        if (++at[d] < dims_[d]) break;
        at[d] = 0;
      }
    }
  }

  static std::int64_t place(const Band& band, const std::vector<std::int64_t>& at) {
    return at[static_cast<std::size_t>(band.second)] - (band.first < 0 ? 0 : at[static_cast<std::size_t>(band.first)]);
  }

  ScalarRef condition(const Band& band) const {
    const ScalarRef j = axis_value(band.second, DType::i32);
    auto bound = [&](std::int64_t n) {
      return band.first < 0 ? integer(n, DType::i32) : binary(Op::add, axis_value(band.first, DType::i32), integer(n, DType::i32));
    };
    ScalarRef c;
    if (band.low > (band.first < 0 ? 0 : 1 - extent(band.first))) c = binary(Op::ge, j, bound(band.low));
    if (band.high < extent(band.second) - 1) {
      const ScalarRef upper = binary(Op::le, j, bound(band.high));
      c = c ? binary(Op::logical_and, c, upper) : upper;
    }
    return c;
  }
};

}  // namespace

std::optional<Table> two_valued(const Program& p, TensorId id) {
  const Tensor& t = p.tensor(id);
  const bool readable = t.dtype == DType::boolean || t.dtype == DType::f32 || t.dtype == DType::f64;
  if (t.kind != Kind::weight || t.data.empty() || !readable) return std::nullopt;
  return Reading(t).run();
}

std::optional<Index> progression(const Program& p, TensorId id) {
  const Tensor& t = p.tensor(id);
  if (t.kind != Kind::weight || t.data.empty() || (t.dtype != DType::i32 && t.dtype != DType::i64) || t.dims.size() > 4) return std::nullopt;
  std::vector<std::int64_t> dims, step(t.dims.size(), 0), at(t.dims.size(), 0);
  std::int64_t count = 1;
  for (const Size& d : t.dims) dims.push_back(d.constant()), count *= dims.back();
  if (count <= 0 || count > std::int64_t{1} << 24) return std::nullopt;
  const auto value = [&](std::int64_t i) -> std::int64_t {
    std::int64_t wide = 0;
    std::int32_t narrow = 0;
    if (t.dtype == DType::i64) std::memcpy(&wide, t.data.data() + 8 * i, 8);
    else std::memcpy(&narrow, t.data.data() + 4 * i, 4), wide = narrow;
    return wide;
  };
  const std::int64_t first = value(0);
  constexpr std::int64_t far = std::int64_t{1} << 40;
  std::int64_t stride = 1;
  for (std::size_t d = dims.size(); d-- > 0; stride *= dims[d])
    if (dims[d] > 1) {
      if (std::abs(value(stride)) > far) return std::nullopt;
      step[d] = value(stride) - first;
    }
  if (std::abs(first) > far) return std::nullopt;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t sum = first;
    for (std::size_t d = 0; d < dims.size(); ++d) sum += step[d] * at[d];
    if (value(i) != sum) return std::nullopt;
    for (std::size_t d = dims.size(); d-- > 0;) {
      if (++at[d] < dims[d]) break;
      at[d] = 0;
    }
  }
  Index index = constant_index(first);
  for (std::size_t d = 0; d < dims.size(); ++d)
    if (step[d] != 0) index = index + Size(step[d]) * axis_index(static_cast<AxisId>(d));
  return index;
}

}  // namespace tilewright
