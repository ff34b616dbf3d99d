#include "cost/paper.h"

#include <algorithm>
#include <map>
#include <set>

namespace tilewright {

namespace {

std::set<std::size_t> steps_of(const std::vector<Span>& spans) {
  std::set<std::size_t> steps;
  for (const Span& span : spans)
    for (const Affine* end : {&span.low, &span.high})
      for (const auto& term : end->terms) steps.insert(static_cast<std::size_t>(term.first) / 2);
  return steps;
}

// Weights of a window are taken to be read once for each tile of the window, however often its tiles are computed
// again.
std::map<TensorId, std::set<std::size_t>> window_weights(const Program& p, const Region& r, const Schedule& order) {
  std::map<TensorId, std::set<std::size_t>> steps;
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    const Statement& s = *p.statement(r.statements[i]);
    if (contraction(p, s)) continue;
    if (const auto w = window(p, s); w && w->weights)
      steps[w->weights->tensor] = steps_of(ranges(p, r, order, static_cast<int>(i)));
  }
  return steps;
}

} // namespace

PaperModel::Moved PaperModel::moved(const Program& p, const Transfer& t) const {
  Moved m{1, static_cast<std::int64_t>(bytes_of(p.tensor(t.tensor).dtype)), {}, {}};
  for (const Size& d : p.tensor(t.tensor).dims) m.elements = checked_mul(m.elements, d.constant());
  for (std::size_t d = 0; !t.store && d < t.box.size(); ++d) {
    const Span& span = t.box[d];
    if (span.low.terms.size() != 1 || span.high.terms.size() != 1) continue;
    const auto step = static_cast<std::size_t>(span.low.terms[0].first) / 2;
    std::vector<std::int64_t> first(2 * extents_.size(), 0);
    first[2 * step + 1] = 1;
    const std::int64_t stride = std::abs(span.low.terms[0].second),
                       reach = span.high.at(first.data()) - span.low.at(first.data()),
                       dim = p.tensor(t.tensor).dims[d].constant();
    if (reach > stride && dim > 0) m.overlaps.push_back({step, (reach - stride) * (m.elements / dim)});
  }
  return m;
}

PaperModel::PaperModel(const Program& p, const Region& r, const Schedule& order) {
  for (const AxisStep& s : order.steps) extents_.push_back(r.axes[static_cast<std::size_t>(s.axis)].constant());
  const auto windows = window_weights(p, r, order);
  for (const Transfer& t : transfers(p, r, order)) {
    moved_.push_back(moved(p, t));
    const auto cut = steps_of(t.box);
    const auto own = windows.find(t.tensor);
    for (std::size_t s = 0; s < static_cast<std::size_t>(t.depth); ++s)
      if (!cut.count(s) && (own == windows.end() || own->second.count(s))) moved_.back().repeated.push_back(s);
  }
}

std::int64_t PaperModel::bytes(const std::vector<std::int64_t>& sizes) const {
  const auto tiles = [&](std::size_t s) { return ceil_div_i64(extents_[s], sizes[s]); };
  std::int64_t sum = 0;
  for (const Moved& m : moved_) {
    std::int64_t elements = m.elements;
    for (std::size_t s : m.repeated) elements = checked_mul(elements, tiles(s));
    for (const Overlap& o : m.overlaps)
      elements = checked_add(elements, checked_mul(2 * (tiles(o.step) - 1), o.elements));
    sum = checked_add(sum, checked_mul(elements, m.width));
  }
  return sum;
}

} // namespace tilewright
