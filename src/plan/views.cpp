#include <algorithm>

#include <fmt/format.h>

#include "law/permute.h"
#include "law/skip.h"
#include "plan/plan.h"

namespace tilewright {

namespace {

struct ViewChooser {
  const Program& p;
  const Region& r;
  int statement;
  const Access& a;
  const Tensor& tensor;
  bool strict = false;
  const std::vector<DimOrder>* layouts = nullptr;
  OperandAt view{};
  std::string why{};

  const Statement& reader() const { return *p.statement(r.statements[static_cast<std::size_t>(statement)]); }
  std::int64_t extent(std::size_t d) const { return tensor.dims[d].constant(); }
  bool reduced(std::size_t d) const {
    const auto x = plain_axis(a.at[d]);
    return x && std::find(reader().reduced.begin(), reader().reduced.end(), *x) != reader().reduced.end();
  }

  // A tensor between kernels is there as long as some kernel reads it.
  bool read_here(TensorId t) const {
    const Boundary b = boundary(p, r);
    return std::find(b.inputs.begin(), b.inputs.end(), t) != b.inputs.end();
  }

  TensorId named(const std::string& name) const {
    for (std::size_t t = 0; t < p.tensors.size(); ++t)
      if (p.tensors[t].name == name) return static_cast<TensorId>(t);
    return -1;
  }

  // The dims of the operand over which the source lies, in order: where extents alone do not tell which they are,
  // nothing is gathered.
  bool lies_over(const std::vector<Size>& of) {
    std::vector<int> ways(of.size() + 1, 0); // to find the first so many of them
    ways[0] = 1;
    for (const Size& dim : tensor.dims)
      for (std::size_t i = of.size(); i-- > 0;)
        if (of[i] == dim) ways[i + 1] += ways[i];
    if (ways[of.size()] != 1) return why = "over which of its dims " + tensor.sparse->of + " lies is not clear", false;
    std::size_t next = 0;
    for (const Size& dim : of) {
      while (!(tensor.dims[next] == dim)) ++next;
      view.dims.push_back(next++);
    }
    return true;
  }
  // Lengths bound the dim behind the leading ones that they are indexed by.
  bool bounded_by(const std::vector<Size>& of) {
    if (of.size() >= tensor.dims.size() || !std::equal(of.begin(), of.end(), tensor.dims.begin()))
      return why = tensor.sparse->of + " does not index its leading dims", false;
    for (std::size_t d = 0; d <= of.size(); ++d) view.dims.push_back(d);
    return true;
  }

  // The dims of the operand that its source speaks of, and the micro-tile's extents along them.
  bool find_source() {
    const Sparse& s = *tensor.sparse;
    const std::size_t rank = tensor.dims.size();
    auto unit = [&](std::size_t d) {
      return d + 1 == rank ? s.tile_columns : d + 2 == rank ? s.tile_rows : std::int64_t{1};
    };
    view.tensor = a.tensor;
    view.source = s.form == Sparse::zeros ? a.tensor : named(s.of);
    if (view.source < 0) return why = "its " + s.of + " is gone", false;
    if (view.source != a.tensor && p.tensor(view.source).kind == Kind::intermediate && !read_here(view.source))
      return why = s.of + " is made by a kernel", false;
    if (layouts) view.order = (*layouts)[static_cast<std::size_t>(view.source)];
    view.lengths = s.form == Sparse::lengths;
    const std::vector<Size>& of = p.tensor(view.source).dims;
    if (s.form == Sparse::zeros)
      for (std::size_t d = 0; d < rank; ++d) view.dims.push_back(d);
    else if (!(view.lengths ? bounded_by(of) : lies_over(of)))
      return false;
    for (std::size_t d : view.dims)
      view.unit.push_back(view.lengths ? 1
                                       : std::clamp<std::int64_t>(unit(d), 1, std::max<std::int64_t>(extent(d), 1)));
    return true;
  }

  // Columns of row blocks where a micro-tile is one element along the reduced axis, pieces of rows where it is longer.
  bool find_packed() {
    std::vector<std::size_t> over_k, over_rows;
    for (std::size_t i = 0; i < view.dims.size(); ++i) (reduced(view.dims[i]) ? over_k : over_rows).push_back(i);
    if (over_k.size() > 1) return why = "its cells lie over two reduced axes", false;
    const bool columns = !over_k.empty() && extent(view.dims[over_k[0]]) > view.unit[over_k[0]] &&
                         (over_rows.empty() || view.unit[over_k[0]] == 1);
    view.packed = columns ? over_k : over_rows;
    if (view.packed.empty()) return why = "no micro-tile is smaller than it", false;
    return true;
  }

  // Each packed dim's axis must be permutable, and nothing may be left where it is skipped.
  bool lawful() {
    // What slides in a window may stand in the micro-tile, but not beside it.
    for (std::size_t i = 0; i < view.dims.size(); ++i) {
      const std::size_t d = view.dims[i];
      if (!plain_axis(a.at[d]) && !a.at[d].terms.empty() && extent(d) > view.unit[i])
        return why = fmt::format("dim {} is not one axis", d), false;
    }
    for (std::size_t i : view.packed) {
      if (extent(view.dims[i]) <= view.unit[i]) continue; // one cell
      const auto x = plain_axis(a.at[view.dims[i]]);
      if (!x) return why = fmt::format("dim {} is no axis", view.dims[i]), false;
      const auto region_axis = plain_axis(r.image[static_cast<std::size_t>(statement)][static_cast<std::size_t>(*x)]);
      if (!region_axis) return why = "its axis is none of the kernel's", false;
      if (const auto law = permutable(p, r, *region_axis); !law) return why = law.reason(), false;
      if (const auto law = skipped(p, reader(), *x, {{a.tensor, 0}}, strict); !law) return why = law.reason(), false;
    }
    return true;
  }
};

} // namespace

namespace {

struct Views {
  const Program& p;
  const Region& r;
  std::vector<std::string>* refusals;
  bool strict;
  const std::vector<DimOrder>* layouts;
  std::vector<OperandAt> chosen{};

  void offer(int statement, const Access& a) {
    const Tensor& t = p.tensor(a.tensor);
    ViewChooser chooser{p, r, statement, a, t, strict, layouts};
    if (chooser.find_source() && chooser.find_packed() && chooser.lawful())
      chosen.push_back(std::move(chooser.view));
    else if (refusals)
      refusals->push_back(fmt::format("{} not gathered: {}", t.name, chooser.why));
  }

  // A map behind a product that does not need it where another operand is zero.
  void wanted(std::size_t product) {
    const TensorId made = p.statement(r.statements[product])->out;
    for (std::size_t i = product + 1; i < r.statements.size(); ++i) {
      const Statement& s = *p.statement(r.statements[i]);
      if (!s.reduced.empty()) continue;
      bool reads = false;
      std::vector<Access> others;
      for_each_access(s.body, [&](const Access& a) {
        reads |= a.tensor == made;
        if (p.tensor(a.tensor).sparse && a.tensor != made) others.push_back(a);
      });
      for (const Access& a : others)
        if (reads && !strict && unneeded(s, a, made)) chosen.push_back(sampled(a));
    }
  }
  bool unneeded(const Statement& s, const Access& a, TensorId made) const {
    if (p.tensor(a.tensor).sparse->form != Sparse::zeros) return false;
    for (const Index& i : a.at) {
      const auto x = plain_axis(i);
      if (!x || needs(p, s, *x, {{a.tensor, 0}}, made)) return false;
    }
    return !a.at.empty();
  }
  OperandAt sampled(const Access& a) const {
    const Tensor& t = p.tensor(a.tensor);
    OperandAt v;
    v.tensor = v.source = a.tensor;
    const std::size_t rank = t.dims.size();
    for (std::size_t d = 0; d < rank; ++d) {
      v.dims.push_back(d), v.packed.push_back(d);
      const std::int64_t tile = d + 1 == rank ? t.sparse->tile_columns : d + 2 == rank ? t.sparse->tile_rows : 1;
      v.unit.push_back(std::clamp<std::int64_t>(tile, 1, std::max<std::int64_t>(t.dims[d].constant(), 1)));
    }
    if (layouts) v.order = (*layouts)[static_cast<std::size_t>(a.tensor)];
    return v;
  }
};

} // namespace

std::vector<OperandAt> choose_views(const Program& p, const Region& r, std::vector<std::string>* refusals, bool strict,
                                    const std::vector<DimOrder>* layouts) {
  Views views{p, r, refusals, strict, layouts};
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    const Statement& s = *p.statement(r.statements[i]);
    const auto product = contraction(p, s);
    if (!product) continue;
    for (const Access* a : {product->a, product->b})
      if (p.tensor(a->tensor).sparse) views.offer(static_cast<int>(i), *a);
    views.wanted(i);
  }
  return std::move(views.chosen);
}

} // namespace tilewright
