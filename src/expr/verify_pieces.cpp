// The pieces of a tensor are disjoint and cover it: they stay inside, no two meet, and their volumes add up. A piece
// is, in each dim, an arithmetic progression; two of them are apart if some dim shows it: one ends before the other
// begins, or they have different remainders modulo the common divisor of their strides.
#include <algorithm>
#include <numeric>
#include <tuple>

#include "expr/scalar.h"
#include "expr/sizes.h"
#include "expr/text.h"
#include "expr/verify.h"
#include "support/error.h"

namespace tilewright {

namespace {

struct Progression {
  Size low = 0, stride = 1, count = 1;
  bool numbers = false; // all three are numbers: then they are compared without building sizes
  std::int64_t first = 0, step = 1, last = 0;
  Size high() const { return low + stride * (count - 1); }
};

using Box = std::vector<Progression>;

constexpr std::size_t max_pieces = 4096, max_symbolic_pieces = 512;

void settle(Progression& p) {
  p.numbers = p.low.is_constant() && p.stride.is_constant() && p.count.is_constant();
  if (!p.numbers) return;
  p.first = p.low.constant();
  p.step = p.stride.constant();
  p.last = p.high().constant();
}

Box box_of(const Statement& s) {
  Box box;
  for (const Index& index : s.at) {
    Progression dim;
    const auto digits = digits_of(index, s.axes);
    TW_ASSERT(digits.has_value());
    dim.low = digits->low, dim.stride = digits->stride, dim.count = digits->count;
    settle(dim);
    box.push_back(dim);
  }
  return box;
}

// Whether two progressions of numbers share an element: the first common one, if there is any, is found by walking one
// of them modulo the stride of the other, in steps that the common divisor makes few.
bool meet(const Progression& a, const Progression& b) {
  const std::int64_t low = std::max(a.first, b.first), high = std::min(a.last, b.last);
  const std::int64_t common = std::gcd(a.step, b.step);
  if (low > high || (b.first - a.first) % common != 0) return false;
  // x = a.first + a.step * t with x = b.first modulo b.step: t is the difference times the inverse of a.step, both over
  // the common divisor.
  const std::int64_t modulus = b.step / common;
  std::int64_t r0 = modulus, r1 = floor_mod_i64(a.step / common, modulus), t0 = 0, t1 = 1;
  while (r1 != 0) {
    const std::int64_t q = r0 / r1;
    std::tie(r0, r1) = std::pair(r1, r0 - q * r1);
    std::tie(t0, t1) = std::pair(t1, t0 - q * t1);
  }
  const __int128 inverse = floor_mod_i64(t0, modulus),
                 difference = floor_mod_i64((b.first - a.first) / common, modulus);
  __int128 x = a.first + static_cast<__int128>(a.step) * ((inverse * difference) % modulus);
  const __int128 period = static_cast<__int128>(a.step) * modulus;
  if (x < low) x += (low - x + period - 1) / period * period;
  return x <= high;
}

bool apart(const Progression& a, const Progression& b, const Ranges& ranges) {
  if (a.numbers && b.numbers) return !meet(a, b);
  if (a.stride.is_constant() && b.stride.is_constant()) {
    const std::int64_t common = std::gcd(a.stride.constant(), b.stride.constant());
    const Size distance = b.low - a.low;
    if (distance.is_constant() && floor_mod_i64(distance.constant(), common) != 0) return true;
  }
  auto before = [&](const Progression& x, const Progression& y) { return at_least(y.low, x.high() + 1, ranges); };
  return before(a, b) || before(b, a);
}

bool apart(const Box& a, const Box& b, const Ranges& ranges) {
  for (std::size_t d = 0; d < a.size(); ++d)
    if (apart(a[d], b[d], ranges)) return true;
  return false;
}

Size volume(const Box& box) {
  Size product = 1;
  for (const Progression& dim : box) product = product * dim.count;
  return product;
}

struct Verdict {
  bool good = true;
  std::string why; // what could not be shown
  std::size_t piece = 0;
};

std::string corner(const Box& box) {
  std::string text;
  for (const Progression& dim : box) text += (text.empty() ? "" : ", ") + dim.low.text();
  return "[" + text + "]";
}

// A piece that is all of a dim is inside it, whatever the range of the size.
bool inside(const Progression& p, const Size& dim, const Ranges& ranges) {
  if (p.low == Size(0) && p.stride == Size(1) && p.count == dim) return true;
  return at_least(p.low, 0, ranges) && at_least(dim - 1, p.high(), ranges);
}

bool is_empty(const Box& box) {
  return std::any_of(box.begin(), box.end(), [](const Progression& p) { return p.count == Size(0); });
}

Verdict check(const std::vector<Box>& boxes, const std::vector<Size>& dims, const Ranges& ranges) {
  Size total = 0, whole = 1;
  for (const Size& dim : dims) whole = whole * dim;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    for (std::size_t d = 0; d < dims.size(); ++d)
      if (!inside(boxes[i][d], dims[d], ranges))
        return {false,
                "it writes from " + boxes[i][d].low.text() + " to " + boxes[i][d].high().text() + " in dim " +
                    std::to_string(d + 1) + " of extent " + dims[d].text(),
                i};
    if (is_empty(boxes[i])) continue;
    for (std::size_t j = 0; j < i; ++j)
      if (!is_empty(boxes[j]) && !apart(boxes[i], boxes[j], ranges))
        return {false, "it may meet the piece that begins at " + corner(boxes[j]), i};
    total = total + volume(boxes[i]);
  }
  if (total == whole) return {};
  return {false, "the pieces hold " + total.text() + " of " + whole.text() + " elements", boxes.size() - 1};
}

// The same boxes at the declared defaults; false if some size has none.
bool bind(std::vector<Box>& boxes, std::vector<Size>& dims, const Binding& defaults) {
  for (Size& dim : dims) dim = dim.with(defaults);
  bool bound = std::all_of(dims.begin(), dims.end(), [](const Size& d) { return d.is_constant(); });
  for (Box& box : boxes)
    for (Progression& p : box) {
      for (Size* size : {&p.low, &p.stride, &p.count}) *size = size->with(defaults);
      settle(p);
      bound = bound && p.numbers;
    }
  return bound;
}

bool all_numbers(const std::vector<Box>& boxes) {
  return std::all_of(boxes.begin(), boxes.end(), [](const Box& box) {
    return std::all_of(box.begin(), box.end(), [](const Progression& p) { return p.numbers; });
  });
}

} // namespace

void verify_pieces(const Program& p, TensorId id, const std::vector<const Statement*>& pieces, const Ranges& ranges,
                   const Binding& defaults) {
  const Tensor& t = p.tensor(id);
  std::vector<Box> boxes;
  for (const Statement* s : pieces) boxes.push_back(box_of(*s));
  const std::size_t limit = all_numbers(boxes) ? max_pieces : max_symbolic_pieces;
  if (pieces.size() > limit)
    throw Error(Code::size, place_of(p, *pieces.back()),
                t.name + " is written by " + std::to_string(pieces.size()) + " pieces",
                "at most " + std::to_string(limit) + " are possible");
  Verdict verdict = check(boxes, t.dims, ranges);
  if (verdict.good) return;
  std::vector<Size> dims = t.dims;
  if (!defaults.empty() && bind(boxes, dims, defaults)) verdict = check(boxes, dims, ranges);
  if (verdict.good) return;
  if (pieces.size() == 1)
    throw Error(Code::shape, place_of(p, *pieces[0]), t.name + " is not written exactly once: " + verdict.why);
  throw Error(Code::shape, place_of(p, *pieces[verdict.piece]),
              "the pieces of " + t.name + " are not shown to cover it once: " + verdict.why,
              "pieces must be disjoint and leave no gap, for all sizes in range");
}

} // namespace tilewright
