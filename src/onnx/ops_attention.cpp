// Attention and rotary embeddings, as contractions, guards and pieces.
//
//   Attention, causal      ->  S[b g r q x] = sum[d] Q * K;  P = softmax[x] S * scale where index(x) <= index(q) +
//   offset
//                              Y[b g r q d] = sum[x] P * V                       g kv heads, r query heads each
//   past and present       ->  K'[.. t ..] in two pieces: the past, then the new keys
//   RotaryEmbedding        ->  two or three pieces of the last dim: x1 * cos - x2 * sin, x1 * sin + x2 * cos, and the
//   rest
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "expr/define.h"
#include "onnx/ops_tables.h"

namespace tilewright::onnx {
namespace {

// A tensor seen as [batch, heads, sequence, size], whether it has four dims or the heads lie inside the last of three.
struct Heads {
  TensorId tensor = -1;
  Size batch, heads, length, size;
  bool merged = false;
  std::vector<Index> at(const Index& b, const Index& h, const Index& s, const Index& d) const {
    if (merged) return {b, s, size * h + d};
    return {b, h, s, d};
  }
};

Heads heads_of(Context& c, int input, std::int64_t heads) {
  Heads h;
  h.tensor = c.input(input);
  const auto dims = c.dims(h.tensor);
  if (dims.size() == 4) {
    h.batch = dims[0], h.heads = dims[1], h.length = dims[2], h.size = dims[3];
    return h;
  }
  if (dims.size() != 3 || heads < 1)
    c.fail(Code::shape, fmt::format("input {} of shape {} with {} heads", input, text_of(dims), heads));
  h.merged = true;
  h.batch = dims[0], h.length = dims[1], h.heads = heads;
  if (!divides(heads, dims[2], &h.size))
    c.fail(Code::shape, fmt::format("{} is no multiple of {} heads", dims[2].text(), heads));
  return h;
}

// The past and the new entries one behind the other; also the operator's present output.
Heads with_past(Context& c, const Heads& now, int past_input, int output) {
  if (!c.has(past_input)) {
    if (output < c.outputs() && c.wants(output)) {
      const auto body = c.read(now.tensor, now.at(axis_index(0), axis_index(1), axis_index(2), axis_index(3)));
      c.output(output, c.map(c.name(output), c.dtype(now.tensor), {now.batch, now.heads, now.length, now.size}, body));
    }
    return now;
  }
  const TensorId past = c.input(past_input);
  const auto dims = c.dims(past);
  if (dims.size() != 4 || dims[0] != now.batch || dims[1] != now.heads || dims[3] != now.size ||
      c.dtype(past) != c.dtype(now.tensor))
    c.fail(Code::shape,
           fmt::format("a past of shape {} for {} heads of {}", text_of(dims), now.heads.text(), now.size.text()));
  Heads all = now;
  all.merged = false;
  all.length = dims[2] + now.length;
  const bool wanted = output < c.outputs() && c.wants(output);
  all.tensor = c.tensor(wanted ? c.name(output) : c.name(fmt::format("all{}", past_input)), c.dtype(past),
                        {now.batch, now.heads, all.length, now.size});
  const auto at = axis_indices(4);
  c.piece(all.tensor, at, dims, c.read(past, at));
  auto behind = at;
  behind[2] = axis_index(2) + constant_index(dims[2]);
  c.piece(all.tensor, behind, {now.batch, now.heads, now.length, now.size},
          c.read(now.tensor, now.at(at[0], at[1], at[2], at[3])));
  if (wanted) c.output(output, all.tensor);
  return all;
}

struct Scores {
  ScalarRef value, guard;
}; // over axes b, h, q, x: what is added to the score (or null), which points exist

ScalarRef conjunction(const ScalarRef& a, const ScalarRef& b) {
  return !a ? b : !b ? a : binary(Op::logical_and, a, b);
}

// attn_mask, aligned right; its last dim may be shorter than the keys: what lies behind does not take part.
Scores mask_of(Context& c, const std::vector<Size>& dims, DType wide) {
  Scores m;
  if (!c.has(3)) return m;
  const TensorId mask = c.input(3);
  auto of = c.dims(mask);
  auto at = axis_indices(4);
  std::vector<Index> index;
  if (of.size() > 4) c.fail(Code::shape, fmt::format("a mask of shape {}", text_of(of)));
  for (std::size_t d = 0; d < of.size(); ++d) {
    const std::size_t axis = 4 - of.size() + d;
    const bool last = axis == 3;
    if (of[d] != Size(1) && of[d] != dims[axis] && !last)
      c.fail(Code::shape, fmt::format("a mask of shape {} for scores {}", text_of(of), text_of(dims)));
    index.push_back(of[d] == Size(1) && dims[axis] != Size(1) ? constant_index(0) : at[axis]);
  }
  const bool flags = c.dtype(mask) == DType::boolean;
  const bool shorter = !of.empty() && of.back() != Size(1) && of.back() != dims[3];
  ScalarRef outside;
  if (shorter) outside = flags ? boolean(false) : number(-std::numeric_limits<double>::infinity(), wide);
  const ScalarRef v = c.read(mask, index, outside);
  if (flags) {
    m.guard = v;
  } else {
    m.value = cast(v, wide);
    m.guard = binary(Op::ne, m.value, number(-std::numeric_limits<double>::infinity(), wide));
  }
  return m;
}

// Causal frontiers, windows and padding: queries stand `offset` keys into the sequence.
ScalarRef band(Context& c, const Heads& q, bool has_past, const Size& past) {
  const DType i = DType::i64;
  const bool causal = c.int_attr("is_causal", 0) != 0;
  const std::int64_t left = c.int_attr("left_window_size", -1), right = c.int_attr("right_window_size", -1);
  ScalarRef offset = has_past ? size_value(past, i) : integer(0, i), guard;
  const ScalarRef x = axis_value(3, i);
  if (c.has(6)) {
    const ScalarRef valid = cast(c.read(c.input(6), {axis_index(0)}), i);
    offset = binary(Op::sub, valid, size_value(q.length, i));
    guard = binary(Op::lt, x, valid);
  }
  const ScalarRef place = binary(Op::add, axis_value(2, i), offset);
  if (causal) guard = conjunction(guard, binary(Op::le, x, place));
  if (left >= 0) guard = conjunction(guard, binary(Op::ge, x, binary(Op::sub, place, integer(left, i))));
  if (right >= 0) guard = conjunction(guard, binary(Op::le, x, binary(Op::add, place, integer(right, i))));
  return guard;
}

void convert_attention(Context& c) {
  const std::int64_t q_heads = c.int_attr("q_num_heads", 0), kv_heads = c.int_attr("kv_num_heads", 0);
  const Heads q = heads_of(c, 0, q_heads), k_now = heads_of(c, 1, kv_heads), v_now = heads_of(c, 2, kv_heads);
  if (c.has(4) != c.has(5)) c.fail(Code::model, "past_key and past_value belong together");
  Size each;
  if (!divides(k_now.heads, q.heads, &each) || k_now.size != q.size || v_now.heads != k_now.heads)
    c.fail(Code::shape, fmt::format("{} query heads of {}, {} key heads of {}", q.heads.text(), q.size.text(),
                                    k_now.heads.text(), k_now.size.text()));
  if (k_now.batch != q.batch || v_now.batch != q.batch || k_now.length != v_now.length)
    c.fail(Code::shape, fmt::format("queries {}, keys {}, values {}", text_of(c.dims(q.tensor)),
                                    text_of(c.dims(k_now.tensor)), text_of(c.dims(v_now.tensor))));
  if (c.has(6) && c.dims(c.input(6)) != std::vector<Size>{q.batch})
    c.fail(Code::shape, fmt::format("key lengths {} for a batch of {}", text_of(c.dims(c.input(6))), q.batch.text()));
  if (q.heads == Size(0)) c.fail(Code::shape, fmt::format("queries {} without heads", text_of(c.dims(q.tensor))));
  if (c.has(4) &&
      (c.rank(c.input(4)) != 4 || c.rank(c.input(5)) != 4 || c.dims(c.input(4))[2] != c.dims(c.input(5))[2]))
    c.fail(Code::shape,
           fmt::format("past keys {} and values {}", text_of(c.dims(c.input(4))), text_of(c.dims(c.input(5)))));
  const Size past = c.has(4) ? c.dims(c.input(4))[2] : Size(0);
  const Heads k = with_past(c, k_now, 4, 1), v = with_past(c, v_now, 5, 2);
  const DType stored = c.dtype(q.tensor), wide = compute_type(stored);
  const std::vector<Size> dims{q.batch, q.heads, q.length, k.length};
  auto axis = [](int a) { return axis_index(a); };
  const Index head = each * axis(1) + axis(2);

  // Scores: axes b g r q x d.
  const TensorId product = c.tensor(c.name("scores"), wide, dims);
  const ScalarRef qk = binary(Op::mul, cast(c.read(q.tensor, q.at(axis(0), head, axis(3), axis(5))), wide),
                              cast(c.read(k.tensor, k.at(axis(0), axis(1), axis(4), axis(5))), wide));
  c.piece(product, {axis(0), head, axis(3), axis(4)}, {q.batch, k.heads, each, q.length, k.length, q.size}, qk,
          Reducer::sum, {5});

  // Scale, softcap, mask.
  const auto at = axis_indices(4);
  const double given = c.real_attr("scale", 0);
  const ScalarRef root = unary(Op::sqrt, size_value(q.size, wide));
  ScalarRef score = c.read(product, at);
  score = c.has_attr("scale") ? binary(Op::mul, score, number(given, wide)) : binary(Op::div, score, root);
  const std::int64_t mode = c.int_attr("qk_matmul_output_mode", 0);
  const bool wants_scores = c.outputs() > 3 && c.wants(3);
  auto emit = [&](const ScalarRef& value) { c.output(3, c.map(c.name(3), stored, dims, value)); };
  if (wants_scores && mode == 0) emit(score);
  if (const double cap = c.real_attr("softcap", 0); cap > 0)
    score = binary(Op::mul, unary(Op::tanh, binary(Op::div, score, number(cap, wide))), number(cap, wide));
  if (wants_scores && mode == 1) emit(score);
  const Scores mask = mask_of(c, dims, wide);
  if (mask.value) score = binary(Op::add, score, mask.value);
  const ScalarRef guard = conjunction(mask.guard, band(c, q, c.has(4), past));
  if (wants_scores && mode == 2)
    emit(guard ? select(guard, score, number(-std::numeric_limits<double>::infinity(), wide)) : score);
  if (c.has_attr("softmax_precision")) {
    const auto precision = static_cast<int>(c.int_attr("softmax_precision"));
    if (precision != 1 && precision != 10 && precision != 11 && precision != 16)
      c.unsupported(fmt::format("softmax_precision {}", precision));
  }
  define::Form form{dims, {}, {3}, score, guard, c.name("weights")};
  const TensorId p = define::expand(c.builder(), define::Reduction::softmax, form, stored);
  if (wants_scores && mode == 3) emit(c.read(p, at));

  // Result: axes b g r q d x, written as the queries came.
  const std::vector<Size> out_dims = q.merged ? std::vector<Size>{q.batch, q.length, q.heads * v.size}
                                              : std::vector<Size>{q.batch, q.heads, q.length, v.size};
  const TensorId y = c.tensor(c.name(), c.dtype(v.tensor), out_dims);
  const ScalarRef pv = binary(Op::mul, cast(c.read(p, {axis(0), head, axis(3), axis(5)}), wide),
                              cast(c.read(v.tensor, v.at(axis(0), axis(1), axis(5), axis(4))), wide));
  std::vector<Index> out_at{axis(0), head, axis(3), axis(4)};
  if (q.merged) out_at = {axis(0), axis(3), each * v.size * axis(1) + v.size * axis(2) + axis(4)};
  c.piece(y, out_at, {q.batch, k.heads, each, q.length, v.size, k.length}, pv, Reducer::sum, {5});
  c.output(0, y);
}

void convert_rotary_embedding(Context& c) {
  const Heads x = heads_of(c, 0, c.int_attr("num_heads", 0));
  const bool interleaved = c.int_attr("interleaved", 0) != 0;
  const std::int64_t asked = c.int_attr("rotary_embedding_dim", 0);
  const Size rotated = asked > 0 ? Size(asked) : x.size;
  Size half;
  if (!divides(2, rotated, &half))
    c.fail(Code::shape, fmt::format("{} elements of a head are rotated, an even number is wanted", rotated.text()));
  if (rotated != x.size && !(rotated.is_constant() && x.size.is_constant() && rotated.constant() < x.size.constant()))
    c.fail(Code::shape, fmt::format("{} elements of a head of {} are rotated", rotated.text(), x.size.text()));
  for (int i = 1; i <= 2; ++i) {
    // With positions [batch, length] a table of them all, [places, half]; else an entry a token, for each batch or for
    // all.
    const auto dims = c.dims(c.input(i));
    bool good = c.has(3)
                    ? c.dims(c.input(3)) == std::vector<Size>{x.batch, x.length} && dims.size() == 2
                    : dims == std::vector<Size>{x.batch, x.length, half} || dims == std::vector<Size>{x.length, half};
    if (!good || dims.back() != half)
      c.fail(Code::shape,
             fmt::format("a cache of shape {} for {} tokens of {} pairs", text_of(dims), x.length.text(), half.text()));
  }
  const DType d = c.dtype(x.tensor), wide = compute_type(d);
  const auto out_dims = c.dims(x.tensor);
  const TensorId y = c.tensor(c.name(), d, out_dims);
  // Axes b h s k, k over half of the rotated elements.
  const std::vector<Size> axes{x.batch, x.heads, x.length, half};
  const Index b = axis_index(0), h = axis_index(1), s = axis_index(2), k = axis_index(3);
  auto cache = [&](int input) {
    std::vector<Index> at{b, s, k};
    if (c.has(3))
      at = {c.gather_index(c.input(3), {b, s}, c.dims(c.input(input))[0]), k};
    else if (c.dims(c.input(input)).size() == 2)
      at = {s, k};
    return cast(c.read(c.input(input), at), wide);
  };
  const Index first = interleaved ? Size(2) * k : k,
              second = interleaved ? Size(2) * k + constant_index(1) : k + constant_index(half);
  const ScalarRef x1 = cast(c.read(x.tensor, x.at(b, h, s, first)), wide),
                  x2 = cast(c.read(x.tensor, x.at(b, h, s, second)), wide);
  const ScalarRef cosine = cache(1), sine = cache(2);
  auto times = [](const ScalarRef& u, const ScalarRef& v) { return binary(Op::mul, u, v); };
  // Where the heads lie inside the last dim, a piece's elements there are no digits of one number: the result is made
  // apart.
  const bool apart = x.merged;
  const TensorId to = apart ? c.tensor(c.name("rotated"), d, {x.batch, x.heads, x.length, x.size}) : y;
  const auto at = [&](const Index& e) { return std::vector<Index>{b, h, s, e}; };
  c.piece(to, at(first), axes, binary(Op::sub, times(cosine, x1), times(sine, x2)));
  c.piece(to, at(second), axes, binary(Op::add, times(sine, x1), times(cosine, x2)));
  if (rotated != x.size)
    c.piece(to, at(k + constant_index(rotated)), {x.batch, x.heads, x.length, x.size - rotated},
            c.read(x.tensor, x.at(b, h, s, k + constant_index(rotated))));
  if (apart) {
    // Y[b, s, size * h + k]: axes b s h k.
    c.piece(y, {axis_index(0), axis_index(1), x.size * axis_index(2) + axis_index(3)},
            {x.batch, x.length, x.heads, x.size},
            c.read(to, {axis_index(0), axis_index(2), axis_index(1), axis_index(3)}));
  }
  c.output(0, y);
}

} // namespace

std::vector<Operator> attention_operators() {
  return {{"", "Attention", 23, 0, convert_attention, "float", "", "T T V:float any T V i64"},
          {"", "RotaryEmbedding", 23, 0, convert_rotary_embedding, "float", "", "T T T i64"}};
}

} // namespace tilewright::onnx
