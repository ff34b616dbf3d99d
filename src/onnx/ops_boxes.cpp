// Boxes of detectors.
//
//   NonMaxSuppression(b[s n 4], p[s c n], 10)  ->  opaque Y[m 3] : i64, Y.count : i64 = NonMaxSuppression(b, p, 10)
//
// with room for m = s * c * min(n, 10) boxes, of which Y.count are kept (onnx/counted.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "onnx/arrays.h"
#include "onnx/ops_tables.h"
#include "support/error.h"

namespace tilewright::onnx {
namespace {

struct Box {
  float low[2], high[2];
};

// Two opposite corners in any order, or the centre and the extents.
Box box_of(const float* p, bool centred) {
  Box b{};
  for (int d = 0; d < 2; ++d) {
    const float half = p[2 + d] / 2;
    b.low[d] = centred ? p[d] - half : std::min(p[d], p[2 + d]);
    b.high[d] = centred ? p[d] + half : std::max(p[d], p[2 + d]);
  }
  return b;
}

float area_of(const Box& b) { return (b.high[0] - b.low[0]) * (b.high[1] - b.low[1]); }

// Whether the share that two boxes have in common of what they cover together exceeds a threshold.
bool overlap(const Box& a, const Box& b, float threshold) {
  Box common{};
  for (int d = 0; d < 2; ++d) {
    common.low[d] = std::max(a.low[d], b.low[d]);
    common.high[d] = std::min(a.high[d], b.high[d]);
    if (common.high[d] <= common.low[d]) return false;
  }
  const float both = area_of(common), one = area_of(a), other = area_of(b), all = one + other - both;
  return both > 0 && one > 0 && other > 0 && all > 0 && both / all > threshold;
}

// Which of the five inputs are given, as positions in what the reference gets; -1: not.
struct Given {
  int limit = -1, overlap = -1, score = -1;
  bool centred = false;
  std::string label;
};

class Suppression {
public:
  Suppression(const Given& given, std::span<const Array> in, std::span<Array> out)
      : boxes_(in[0]), scores_(in[1]), centred_(given.centred), out_(out[0]) {
    const std::int64_t n = boxes_.dims[1];
    if (scores_.dims[0] != boxes_.dims[0] || scores_.dims[2] != n)
      throw Error(Code::input, given.label,
                  fmt::format("NonMaxSuppression: boxes [{}], scores [{}]", fmt::join(boxes_.dims, ", "),
                              fmt::join(scores_.dims, ", ")));
    if (given.limit >= 0)
      limit_ = std::clamp<std::int64_t>(*in[static_cast<std::size_t>(given.limit)].as<std::int64_t>(), 0, n);
    if (given.overlap >= 0) most_ = *in[static_cast<std::size_t>(given.overlap)].as<float>();
    if (given.score >= 0) least_ = in[static_cast<std::size_t>(given.score)].as<float>();
    if (!(most_ >= 0 && most_ <= 1))
      throw Error(Code::input, given.label, fmt::format("NonMaxSuppression: iou_threshold {}", most_));
    std::memset(out_.data, 0, out_.bytes());
    for (std::int64_t s = 0; limit_ > 0 && s < scores_.dims[0]; ++s)
      for (std::int64_t c = 0; c < scores_.dims[1]; ++c) choose(s, c);
    put_integer(out[1], 0, found_);
  }

private:
  const Array &boxes_, &scores_;
  const bool centred_;
  Array& out_;
  std::int64_t limit_ = 0, found_ = 0;
  float most_ = 0;
  const float* least_ = nullptr;

  // The boxes of one class, the likeliest first, except those that cover one that is kept already.
  void choose(std::int64_t sample, std::int64_t label) {
    const std::int64_t n = boxes_.dims[1];
    const float* score = scores_.as<float>() + (sample * scores_.dims[1] + label) * n;
    std::vector<std::int64_t> order;
    for (std::int64_t i = 0; i < n; ++i)
      if (least_ ? score[i] > *least_ : !std::isnan(score[i])) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return score[a] > score[b]; });
    std::vector<Box> kept;
    for (std::int64_t i : order) {
      if (static_cast<std::int64_t>(kept.size()) == limit_) return;
      const Box box = box_of(boxes_.as<float>() + (sample * n + i) * 4, centred_);
      if (std::any_of(kept.begin(), kept.end(), [&](const Box& k) { return overlap(box, k, most_); })) continue;
      kept.push_back(box);
      std::int64_t column = 3 * found_++;
      for (std::int64_t v : {sample, label, i}) put_integer(out_, column++, v);
    }
  }
};

void convert_non_max_suppression(Context& c) {
  TensorId boxes = c.input(0), scores = c.input(1);
  std::vector<Size> b = c.dims(boxes), s = c.dims(scores);
  auto differ = [](const Size& x, const Size& y) { return x.is_constant() && y.is_constant() && x != y; };
  if (b.size() != 3 || s.size() != 3 || b[2] != Size(4) || differ(b[0], s[0]) || differ(b[1], s[2]))
    c.fail(Code::shape, fmt::format("boxes {}, scores {}", text_of(b), text_of(s)));
  Given given{-1, -1, -1, c.int_attr("center_point_box", 0) != 0, c.label()};
  std::vector<TensorId> in{boxes, scores};
  for (int i = 2; i < 5; ++i) {
    if (!c.has(i)) continue;
    if (count_of(c.dims(c.input(i))) != Size(1))
      c.fail(Code::shape, fmt::format("input {} of shape {}", i, text_of(c.dims(c.input(i)))));
    (i == 2 ? given.limit : i == 3 ? given.overlap : given.score) = static_cast<int>(in.size());
    in.push_back(c.input(i));
  }
  Size each = given.limit < 0 ? Size(0) : s[2];
  if (given.limit >= 0 && c.known(c.input(2))) each = min(each, max(c.size(c.input(2)), 0));
  TensorId out = c.tensor(c.name(), DType::i64, {room_for(s[0] * s[1] * each), 3}), count = c.count();
  c.opaque("NonMaxSuppression", in, {out, count},
           [given](std::span<const Array> from, std::span<Array> to) { Suppression(given, from, to); });
  c.counted(out, 0, count);
  c.output(0, out);
}

} // namespace

std::vector<Operator> box_operators() {
  return {
      {"", "NonMaxSuppression", 10, 0, convert_non_max_suppression, "f32",
       "opaque; its extent is known when it has run", "f32 f32 i64 f32 f32"},
  };
}

} // namespace tilewright::onnx
