#include <algorithm>

#include <fmt/format.h>

#include "law/excerpt.h"
#include "law/permute.h"
#include "law/stream.h"

namespace tilewright {

namespace {

// Whether the axes of an affine index are digits of a mixed radix (64*h + d, d < 64): then no two points share an element.
bool injective(const Index& index, const std::vector<Size>& extents) {
  std::vector<std::pair<std::int64_t, std::int64_t>> digits;   // coefficient, extent
  for (const Index::Term& t : index.terms) {
    const AxisId* a = std::get_if<AxisId>(&t.of);
    if (!a || !t.coefficient.is_constant()) return false;
    const Size& e = extents[static_cast<std::size_t>(*a)];
    digits.emplace_back(std::abs(t.coefficient.constant()), e.is_constant() ? e.constant() : INT32_MAX);
  }
  std::sort(digits.begin(), digits.end());
  std::int64_t reach = 0;
  for (const auto& [c, e] : digits) {
    if (c <= reach) return false;
    reach += c * (e - 1);
  }
  return true;
}

struct RoleFinder {
  const Statement& s;
  std::vector<Role>& out;

  void index(const Index& i, bool inside_gather) {
    const bool mixed = i.terms.size() > 1;
    const bool overlaps = mixed && !(is_affine(i) && injective(i, s.axes));
    for (const Index::Term& t : i.terms) {
      if (const AxisId* a = std::get_if<AxisId>(&t.of)) {
        Role& r = out[static_cast<std::size_t>(*a)];
        if (!plain_axis(i)) r.plain = false;
        if (overlaps) r.windowed = true;
        if (inside_gather) r.indirect = true;
      } else if (const auto* g = std::get_if<std::shared_ptr<const Access>>(&t.of)) {
        for (const Index& inner : (*g)->at) index(inner, true);
      } else {
        index(*std::get<std::shared_ptr<const Index>>(t.of), inside_gather);
        for (std::size_t x = 0; x < out.size(); ++x)
          if (mentions_axis(i, static_cast<AxisId>(x))) out[x].plain = false;
      }
    }
  }
};

Refused refused(std::string why) { return Refused{std::move(why)}; }

}  // namespace

std::vector<Role> roles(const Program& p, StatementId id) {
  const Statement* s = p.statement(id);
  TW_ASSERT(s != nullptr);
  std::vector<Role> out(s->axes.size());
  for (Role& r : out) r.plain = true;
  for (AxisId a : s->reduced) out[static_cast<std::size_t>(a)].reducer = s->reducer;
  RoleFinder finder{*s, out};
  for_each_access(*s, [&](const Access& a) {
    for (const Index& i : a.at) finder.index(i, false);
  });
  for (const Index& i : s->at) finder.index(i, false);
  for (AxisId a : used_axis_values(*s)) out[static_cast<std::size_t>(a)].plain = false;
  return out;
}

std::vector<Role> roles(const Program& p, const Region& r) {
  std::vector<Role> out(r.axes.size());
  for (Role& role : out) role.plain = true;
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    const auto mine = roles(p, r.statements[i]);
    for (std::size_t a = 0; a < mine.size(); ++a) {
      const Index& image = r.image[i][a];
      const auto exact = plain_axis(image);
      for (std::size_t x = 0; x < out.size(); ++x) {
        if (!mentions_axis(image, static_cast<AxisId>(x))) continue;
        Role& role = out[x];
        if (mine[a].reducer != Reducer::none) role.reducer = mine[a].reducer;
        role.windowed |= mine[a].windowed || (!exact && image.terms.size() > 1);
        role.indirect |= mine[a].indirect;
        role.plain &= mine[a].plain && exact.has_value();
      }
    }
  }
  return out;
}

Or<bool> may_be_tiled(const Region& r, RegionAxis axis, const Role& role) {
  if (role.reducer == Reducer::none) return true;
  return refused(fmt::format("{} is reduced with {}: tiles hold partial results (split it)",
                             r.names[static_cast<std::size_t>(axis)], name_of(role.reducer)));
}

Or<bool> may_be_streamed(const Program& p, const Region& r, RegionAxis axis, const Role& role) {
  if (role.reducer == Reducer::none) return refused(r.names[static_cast<std::size_t>(axis)] + " is not reduced");
  if (!needs_stream(p, r, axis)) return true;
  const Excerpt a = excerpt_of(p, r);
  const auto derived = derive_stream(*a.program, a.region, axis);
  return derived ? Or<bool>(true) : refused(derived.reason());
}

Laws laws(const Program& p, const Region& r, RegionAxis axis) {
  const Role role = roles(p, r)[static_cast<std::size_t>(axis)];
  const std::string& name = r.names[static_cast<std::size_t>(axis)];
  Laws l{true, true, true, true, true, true};
  l.tile = may_be_tiled(r, axis, role);
  if (role.reducer == Reducer::none) l.split = refused(name + " is not reduced");
  l.stream = may_be_streamed(p, r, axis, role);
  if (!role.windowed) l.walk = refused(name + " slides over nothing: neighbouring tiles share no element");
  if (const auto permuted = permutable(p, r, axis); !permuted) l.permute = refused(permuted.reason());
  l.bucket = bucketable(p, r, axis);
  return l;
}

}  // namespace tilewright
