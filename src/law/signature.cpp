#include <algorithm>
#include <charconv>
#include <map>

#include <fmt/format.h>

#include "law/excerpt.h"

namespace tilewright {

namespace {

struct Writer {
  const Program& p;
  const std::vector<std::vector<int>>* orders;
  std::map<TensorId, std::size_t> number;
  std::map<const Scalar*, std::size_t> seen; // bodies share their parts
  std::string out;

  void write(std::int64_t n) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, n).ptr;
    out.append(digits, end);
    out += ' ';
  }
  void write(const Size& s) {
    if (s.is_constant()) return write(s.constant());
    out += s.text();
    out += ' ';
  }

  void tensor(TensorId t) {
    const auto [at, fresh] = number.emplace(t, number.size());
    write(static_cast<std::int64_t>(at->second));
    if (!fresh) return;
    const Tensor& x = p.tensor(t);
    write(static_cast<std::int64_t>(x.dtype));
    write(static_cast<std::int64_t>(x.kind));
    if (x.sparse) out += "s" + x.name + " "; // how much of it lives is said by name
    for (const Size& d : x.dims) write(d);
    if (orders)
      for (int d : (*orders)[static_cast<std::size_t>(t)]) write(d);
  }

  void statement(const Statement& s) {
    tensor(s.out);
    for (const Index& x : s.at) index(x);
    for (const Size& e : s.axes) write(e);
    write(static_cast<std::int64_t>(s.reducer));
    for (AxisId a : s.reduced) write(a);
    scalar(s.body), scalar(s.guard);
  }

  void index(const Index& i) {
    for (const Index::Term& t : i.terms) {
      write(t.coefficient);
      if (const AxisId* a = std::get_if<AxisId>(&t.of))
        out += 'a', write(*a);
      else if (const auto* g = std::get_if<std::shared_ptr<const Access>>(&t.of))
        access(**g);
      else
        index(*std::get<std::shared_ptr<const Index>>(t.of));
    }
    out += ':';
    write(i.offset), write(i.div), write(i.mod);
  }

  void access(const Access& a) {
    out += 'r';
    tensor(a.tensor);
    for (const Index& i : a.at) index(i);
    scalar(a.otherwise);
  }

  void scalar(const ScalarRef& s) {
    if (!s) {
      out += "- ";
      return;
    }
    const auto [at, fresh] = seen.emplace(s.get(), seen.size());
    if (!fresh) {
      out += '#', write(static_cast<std::int64_t>(at->second));
      return;
    }
    out += '(';
    write(static_cast<std::int64_t>(s->op)), write(static_cast<std::int64_t>(s->dtype));
    for (const ScalarRef& a : s->args) scalar(a);
    if (const double* d = std::get_if<double>(&s->leaf))
      out += fmt::format("{} ", *d);
    else if (const auto* n = std::get_if<std::int64_t>(&s->leaf))
      write(*n);
    else if (const auto* a = std::get_if<AxisId>(&s->leaf))
      write(*a);
    else if (const auto* z = std::get_if<Size>(&s->leaf))
      write(*z);
    else if (const auto* r = std::get_if<Access>(&s->leaf))
      access(*r);
    out += ')';
  }
};

} // namespace

Signatures::Signatures(const Program& p, const Readers& readers, const std::vector<std::vector<int>>* orders,
                       std::map<std::string, int>& known)
    : p_(p), readers_(readers), shapes_(p.nodes.size()) {
  for (std::size_t n = 0; n < p.nodes.size(); ++n) {
    const Statement* s = p.statement(static_cast<StatementId>(n));
    if (!s) continue;
    Writer w{p, orders, {}, {}, {}};
    w.statement(*s);
    shapes_[n].number = known.try_emplace(std::move(w.out), static_cast<int>(known.size())).first->second;
    shapes_[n].tensors.resize(w.number.size());
    for (const auto& [t, at] : w.number) shapes_[n].tensors[at] = t;
  }
}

std::string Signatures::of(const std::vector<StatementId>& set) const {
  std::string out;
  std::vector<TensorId> met;
  const auto write = [&](std::int64_t n) {
    char digits[24];
    out.append(digits, std::to_chars(digits, digits + sizeof digits, n).ptr);
    out += ' ';
  };
  for (StatementId id : set) {
    const Shape& shape = shapes_[static_cast<std::size_t>(id)];
    const TensorId result = p_.statement(id)->out;
    const auto& list = readers_[static_cast<std::size_t>(result)];
    const bool stored = p_.is_result(result) || std::any_of(list.begin(), list.end(), [&](StatementId reader) {
                          return std::find(set.begin(), set.end(), reader) == set.end();
                        });
    out += stored ? 's' : 'i';
    write(shape.number);
    for (TensorId t : shape.tensors) {
      const auto at = std::find(met.begin(), met.end(), t);
      write(at - met.begin());
      if (at == met.end()) met.push_back(t);
    }
  }
  return out;
}

std::string signature(const Program& p, const Region& r, const std::vector<std::vector<int>>* orders) {
  Writer w{p, orders, {}, {}, {}};
  const Boundary b = boundary(p, r);
  for (const Size& e : r.axes) w.write(e);
  for (std::size_t i = 0; i < r.statements.size(); ++i) {
    const Statement& s = *p.statement(r.statements[i]);
    w.out += std::count(b.outputs.begin(), b.outputs.end(), s.out) ? "\nstored " : "\n";
    for (const Index& x : r.image[i]) w.index(x);
    w.statement(s);
  }
  return std::move(w.out);
}

} // namespace tilewright
