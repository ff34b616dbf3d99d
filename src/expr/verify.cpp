#include "expr/verify.h"

#include <algorithm>
#include <map>
#include <set>

#include "expr/scalar.h"
#include "expr/sizes.h"
#include "expr/text.h"
#include "support/error.h"

namespace tilewright {

namespace {

constexpr std::size_t max_rank = 64;

class Verifier {
public:
  Verifier(const Program& p, const Sources& sources) : p_(p), sources_(sources) {}

  void run() {
    sizes();
    tensors();
    ranges_ = ranges_of(p_);
    defaults_ = defaults_of(p_);
    for (const auto& node : p_.nodes) {
      if (const auto* s = std::get_if<Statement>(&node))
        ++pieces_[is_tensor(s->out, "the result of a statement")];
      else
        for (TensorId out : std::get<Opaque>(node).out) ++pieces_[is_tensor(out, "an output of an opaque statement")];
    }
    for (const auto& node : p_.nodes)
      if (const auto* s = std::get_if<Statement>(&node))
        statement(*s);
      else
        opaque(std::get<Opaque>(node));
    outputs();
  }

private:
  const Program& p_;
  const Sources& sources_;
  Ranges ranges_;
  Binding defaults_;
  std::set<std::string> names_;
  std::set<std::string> symbols_;  // the free sizes
  std::map<TensorId, int> pieces_; // writers that are still to come
  std::map<TensorId, std::vector<const Statement*>> written_;

  // Where a tensor is declared, or its name.
  const std::string& place(TensorId id) const {
    auto found = sources_.tensors.find(id);
    return found != sources_.tensors.end() ? found->second : p_.tensor(id).name;
  }

  [[noreturn]] void fail(Code code, const std::string& where, std::string message, std::string hint = {}) const {
    throw Error(code, where, std::move(message), std::move(hint));
  }

  TensorId is_tensor(TensorId id, const char* what) const {
    if (id < 0 || static_cast<std::size_t>(id) >= p_.tensors.size())
      fail(Code::internal, p_.name, std::string(what) + " is no tensor");
    return id;
  }

  void name(const std::string& name) {
    if (name.empty()) fail(Code::name, p_.name, "an empty name");
    if (!names_.insert(name).second)
      fail(Code::name, p_.name, "the name " + name + " is used twice", "tensors and sizes share one name space");
  }

  // A size may be written in the free sizes only: what derived ones stand for is in its place.
  void known(const Size& size, const std::string& where) const {
    std::vector<std::string> names;
    size.collect_symbols(names);
    for (const std::string& symbol : names)
      if (!symbols_.contains(symbol))
        fail(Code::size, where, "size " + symbol + " in " + size.text() + " is not a free size of the program");
  }

  void sizes() {
    std::set<std::string> earlier;
    for (const SizeDecl& s : p_.sizes) {
      name(s.name);
      if (s.range.low < 0 || s.range.low > s.range.high)
        fail(Code::size, p_.name,
             "the range of size " + s.name + " is " + std::to_string(s.range.low) + ".." +
                 std::to_string(s.range.high));
      if (s.value) {
        std::vector<std::string> names;
        s.value->collect_symbols(names);
        for (const std::string& n : names)
          if (!earlier.contains(n))
            fail(Code::size, p_.name, "size " + s.name + " is derived from " + n + ", which is not an earlier size");
        if (auto value = s.value->value(); value && (*value < s.range.low || *value > s.range.high))
          fail(Code::size, p_.name,
               "size " + s.name + " is " + std::to_string(*value) + ", outside " + std::to_string(s.range.low) + ".." +
                   std::to_string(s.range.high));
      }
      if (is_free(s)) symbols_.insert(s.name);
      earlier.insert(s.name);
    }
  }

  void tensors() {
    std::map<TensorId, int> given;
    for (TensorId id : p_.inputs)
      if (++given[is_tensor(id, "an input")] > 1 || p_.tensor(id).kind != Kind::input)
        fail(Code::internal, p_.tensor(id).name, "an input that is listed twice or is not of that kind");
    for (std::size_t i = 0; i < p_.tensors.size(); ++i) {
      const Tensor& t = p_.tensors[i];
      const std::string& where = place(static_cast<TensorId>(i));
      name(t.name);
      if (t.kind == Kind::input && !given.contains(static_cast<TensorId>(i)))
        fail(Code::internal, where, "an input that is not listed");
      if (t.dims.size() > max_rank)
        fail(Code::shape, where, "a tensor of " + std::to_string(t.dims.size()) + " dims",
             "at most " + std::to_string(max_rank));
      for (const Size& dim : t.dims) {
        known(dim, where);
        if (dim.is_constant() && dim.constant() < 0)
          fail(Code::size, where, "a dim of " + std::to_string(dim.constant()));
      }
      if (t.index_of) {
        known(*t.index_of, where);
        if (!is_integer(t.dtype))
          fail(Code::type, where, "an index type on elements that are " + std::string(name_of(t.dtype)));
      }
      if (t.sparse) sparse(t, where);
    }
  }

  void sparse(const Tensor& t, const std::string& where) const {
    const Sparse& s = *t.sparse;
    if (s.tile_rows < 1 || s.tile_columns < 1)
      fail(Code::size, where, "a tile of " + std::to_string(s.tile_rows) + " by " + std::to_string(s.tile_columns));
    if (s.form == Sparse::zeros) return;
    const auto of =
        std::find_if(p_.tensors.begin(), p_.tensors.end(), [&](const Tensor& other) { return other.name == s.of; });
    if (of == p_.tensors.end()) fail(Code::name, where, "no tensor " + s.of + " for the sparsity of " + t.name);
    if (s.form == Sparse::lengths) {
      if (!is_integer(of->dtype))
        fail(Code::type, where, "lengths " + s.of + " are " + std::string(name_of(of->dtype)), "lengths are integers");
      if (of->dims.size() >= t.dims.size() || !std::equal(of->dims.begin(), of->dims.end(), t.dims.begin()))
        fail(Code::shape, where, "lengths " + s.of + " do not index the leading dims of " + t.name,
             "lengths n[b] of X[b x ...] bound x");
      return;
    }
    if (of->dtype != DType::boolean)
      fail(Code::type, where, "mask " + s.of + " is " + std::string(name_of(of->dtype)), "a mask is bool");
    auto next = t.dims.begin();
    for (const Size& dim : of->dims) {
      next = std::find(next, t.dims.end(), dim);
      if (next == t.dims.end())
        fail(Code::shape, where, "mask " + s.of + " is not indexed by a subset of the axes of " + t.name);
      ++next;
    }
  }

  // ---- statements

  void is_ready(TensorId id, const std::string& where, TensorId writer) const {
    const Tensor& t = p_.tensor(is_tensor(id, "what is read"));
    if (t.kind != Kind::intermediate) return;
    auto left = pieces_.find(id);
    if (left == pieces_.end()) fail(Code::name, where, t.name + " is read and never written");
    if (left->second == 0) return;
    fail(Code::cycle, where, id == writer ? t.name + " reads itself" : t.name + " is read before all of it is written",
         id == writer ? "there is no recurrence; give the result another name"
                      : "statements stand in the order in which they are computed");
  }

  void writes(TensorId id, const std::string& where) {
    if (p_.tensor(id).kind != Kind::intermediate)
      fail(Code::name, where, p_.tensor(id).name + " is an input or a weight, and is written");
    --pieces_[id];
  }

  void statement(const Statement& s) {
    const std::string where = place_of(p_, s);
    axes(s, where);
    for (const std::string& symbol : verify_types(p_, s)) known(Size::symbol(symbol), where);
    for_each_access(s, [&](const Access& a) { is_ready(a.tensor, where, s.out); });
    for (const Index& index : s.at) indices(index, where);
    for_each_access(s, [&](const Access& a) {
      for (const Index& index : a.at) indices(index, where);
    });
    verify_bounds(p_, s, ranges_, defaults_, sources_);
    writes(s.out, where);
    written_[s.out].push_back(&s);
    if (pieces_[s.out] == 0) verify_pieces(p_, s.out, written_[s.out], ranges_, defaults_);
  }

  void axes(const Statement& s, const std::string& where) const {
    if (!s.names.empty() && s.names.size() != s.axes.size())
      fail(Code::internal, where, "a statement whose axes have no names");
    if (s.axes.size() > max_rank)
      fail(Code::shape, where, "a statement of " + std::to_string(s.axes.size()) + " axes",
           "at most " + std::to_string(max_rank));
    for (const Size& extent : s.axes) {
      known(extent, where);
      if (extent.is_constant() && extent.constant() < 0)
        fail(Code::size, where, "an axis of extent " + std::to_string(extent.constant()));
    }
    std::vector<int> used(s.axes.size(), 0);
    for (AxisId a : s.reduced) {
      if (a < 0 || static_cast<std::size_t>(a) >= s.axes.size() || used[static_cast<std::size_t>(a)]++)
        fail(Code::internal, where, "a reduced axis that is none, or is reduced twice");
    }
    const bool pair = s.reducer == Reducer::argmax || s.reducer == Reducer::argmin;
    if (s.reduced.empty() != (s.reducer == Reducer::none))
      fail(Code::internal, where, "reduced axes without a reducer, or the reverse");
    if (pair && s.reduced.size() != 1)
      fail(Code::shape, where,
           std::string(name_of(s.reducer)) + " runs over one axis, not " + std::to_string(s.reduced.size()));
    left_side(s, where, used);
  }

  // Each dim is stride * axis + offset, axes in its place that are the digits of one number, or a constant; each parallel axis stands in one of them.
  void left_side(const Statement& s, const std::string& where, std::vector<int>& used) const {
    const Tensor& t = p_.tensor(s.out);
    if (s.at.size() != t.dims.size())
      fail(Code::shape, where,
           t.name + " is written with " + std::to_string(s.at.size()) + " indices and has " +
               std::to_string(t.dims.size()) + " dims");
    for (const Index& index : s.at) {
      if (!is_affine(index))
        fail(Code::shape, where, "a left side is stride * axis + offset in each dim",
             "views and gathers belong to the right side");
      for (const Index::Term& term : index.terms) {
        const AxisId a = std::get<AxisId>(term.of);
        if (a < 0 || static_cast<std::size_t>(a) >= s.axes.size()) fail(Code::internal, where, "an index over no axis");
        if (used[static_cast<std::size_t>(a)]++)
          fail(Code::shape, where, "axis " + axis_name(s, a) + " stands twice on the left side, or is reduced");
        if (!at_least(term.coefficient, 1, ranges_))
          fail(Code::shape, where,
               "the stride " + term.coefficient.text() + " of axis " + axis_name(s, a) + " is not positive");
      }
      if (!digits_of(index, s.axes))
        fail(Code::shape, where, "the axes of a dim on the left side are not the digits of one number",
             "write 64*h + d with d < 64: each element once, without gaps");
    }
    for (std::size_t a = 0; a < used.size(); ++a)
      if (!used[a])
        fail(Code::shape, where,
             "axis " + axis_name(s, static_cast<AxisId>(a)) + " is neither on the left side nor reduced");
  }

  static std::string axis_name(const Statement& s, AxisId a) {
    const auto i = static_cast<std::size_t>(a);
    return i < s.names.size() ? s.names[i] : "number " + std::to_string(a);
  }

  void indices(const Index& index, const std::string& where) const {
    known(index.offset, where);
    known(index.div, where);
    known(index.mod, where);
    if (!positive(index.div))
      fail(Code::bounds, where, "an index divided by " + index.div.text() + ", which may be zero",
           "give the size a range: `in 1..N`");
    if (index.mod != Size(0) && !positive(index.mod))
      fail(Code::bounds, where, "an index modulo " + index.mod.text() + ", which may be zero",
           "give the size a range: `in 1..N`");
    for (const Index::Term& term : index.terms) {
      known(term.coefficient, where);
      if (auto* nested = std::get_if<std::shared_ptr<const Index>>(&term.of)) indices(**nested, where);
    }
  }

  bool positive(const Size& size) const {
    if (at_least(size, 1, ranges_)) return true;
    const Size bound = size.with(defaults_);
    return bound.is_constant() && bound.constant() >= 1;
  }

  void opaque(const Opaque& o) {
    std::string where = o.place.node;
    if (o.place.line > 0) where += ":" + std::to_string(o.place.line) + ":" + std::to_string(o.place.column);
    if (o.op.empty()) fail(Code::name, where, "an opaque statement without a name");
    for (TensorId in : o.in) is_ready(in, where, -1);
    for (TensorId out : o.out) {
      writes(out, where);
      if (pieces_[out] != 0)
        fail(Code::shape, where, p_.tensor(out).name + " is written by an opaque statement and by another");
    }
  }

  void outputs() const {
    if (p_.outputs.empty()) fail(Code::name, p_.name, "a program without outputs");
    for (TensorId out : p_.outputs) is_ready(is_tensor(out, "an output"), place(out), -1);
    for (std::size_t i = 0; i < p_.tensors.size(); ++i)
      if (p_.tensors[i].stored_in) state(static_cast<TensorId>(i));
    for (std::size_t i = 0; i < p_.tensors.size(); ++i)
      if (!p_.tensors[i].counted_by.empty()) counts(static_cast<TensorId>(i));
  }

  // What counts the rows of an output is one number, and known when the program has run.
  void counts(TensorId id) const {
    const Tensor& t = p_.tensor(id);
    const std::string& where = place(id);
    if (std::find(p_.outputs.begin(), p_.outputs.end(), id) == p_.outputs.end())
      fail(Code::name, where, "the rows of " + t.name + " are counted, and it is no output");
    if (t.stored_in) fail(Code::name, where, "the rows of " + t.name + " are counted, and it is stored in an input");
    if (t.counted_by.size() != t.dims.size())
      fail(Code::internal, where, t.name + " has not as many counts as dims");
    for (TensorId count : t.counted_by) {
      if (count == -1) continue;
      const Tensor& c = p_.tensor(is_tensor(count, "what counts the rows of an output"));
      if (c.dtype != DType::i64 || !c.dims.empty())
        fail(Code::type, where, c.name + " counts the rows of " + t.name + ", and is not an i64 tensor without dims");
      is_ready(count, where, -1);
    }
  }

  void state(TensorId id) const {
    const Tensor& t = p_.tensor(id);
    const std::string& where = place(id);
    const Tensor& in = p_.tensor(is_tensor(*t.stored_in, "the buffer of a state"));
    if (std::find(p_.outputs.begin(), p_.outputs.end(), id) == p_.outputs.end())
      fail(Code::name, where, t.name + " is stored in " + in.name + " and is no output");
    if (in.kind != Kind::input)
      fail(Code::name, where, t.name + " is stored in " + in.name + ", which is not an input");
    if (in.dtype != t.dtype)
      fail(Code::type, where,
           t.name + " is " + std::string(name_of(t.dtype)) + " and is stored in " + in.name + ", which is " +
               std::string(name_of(in.dtype)));
    if (in.dims != t.dims)
      fail(Code::shape, where, t.name + " and " + in.name + ", in which it is stored, differ in extents");
  }
};

} // namespace

std::string place_of(const Program& p, const Statement& s) {
  const Place& place = s.place;
  if (place.line > 0)
    return (place.node.empty() ? "" : place.node + ":") + std::to_string(place.line) + ":" +
           std::to_string(place.column);
  if (!place.node.empty()) return place.node;
  return s.out >= 0 && static_cast<std::size_t>(s.out) < p.tensors.size() ? p.tensor(s.out).name : p.name;
}

void verify(const Program& p, const Sources& sources) { Verifier(p, sources).run(); }
void verify(const Program& p) { Verifier(p, {}).run(); }

} // namespace tilewright
