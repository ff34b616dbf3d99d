// Programs as text: a header with every name, declarations, statements, outputs. The header comes last to be known.
#include <algorithm>
#include <set>

#include "expr/lexer.h"
#include "expr/print_expr.h"
#include "expr/scalar.h"
#include "expr/text.h"

namespace tilewright {

namespace {

constexpr std::size_t width = 110;

class ProgramPrinter {
public:
  explicit ProgramPrinter(const Program& p) : p_(p), names_(p) {}

  std::string program() {
    collect_hints();
    std::string body = declarations();
    for (const auto& node : p_.nodes) {
      const auto* s = std::get_if<Statement>(&node);
      body += (s ? statement(*s) : opaque(std::get<Opaque>(node))) + "\n";
    }
    body += outputs();
    return names_.header() + body;
  }

private:
  const Program& p_;
  HeaderNames names_;
  std::map<std::pair<TensorId, std::size_t>, std::string>
      hints_; // what the dims of a tensor are called where it is used

  static std::string hint(const Statement& s, AxisId a) {
    const auto i = static_cast<std::size_t>(a);
    return i < s.names.size() ? s.names[i] : "";
  }

  void collect_hints() {
    auto note = [&](const Statement& s, TensorId t, const std::vector<Index>& at) {
      for (std::size_t d = 0; d < at.size(); ++d)
        if (auto axis = plain_axis(at[d]); axis && s.axes[static_cast<std::size_t>(*axis)] == p_.tensor(t).dims[d])
          hints_.try_emplace({t, d}, hint(s, *axis));
    };
    for (const auto& node : p_.nodes)
      if (const auto* s = std::get_if<Statement>(&node)) {
        for_each_access(*s, [&](const Access& a) { note(*s, a.tensor, a.at); });
        note(*s, s->out, s->at);
      }
  }

  // counts: names of tensors that stand for extents; -1: the extent.
  std::string tensor(TensorId id, const std::vector<TensorId>& counts = {}) {
    const Tensor& t = p_.tensor(id);
    std::string text = spelled(t.name);
    if (t.dims.empty()) return text;
    std::string axes;
    std::set<std::string> taken;
    for (std::size_t d = 0; d < t.dims.size(); ++d) {
      if (!counts.empty() && counts[d] >= 0) {
        axes += (d ? " " : "") + spelled(p_.tensor(counts[d]).name);
        continue;
      }
      auto found = hints_.find({id, d});
      const std::string name = names_.axis(found == hints_.end() ? "" : found->second, t.dims[d], taken);
      taken.insert(name);
      axes += (d ? " " : "") + spelled(name);
    }
    return text + "[" + axes + "]";
  }

  std::string type(const Tensor& t) {
    if (!t.index_of) return std::string(name_of(t.dtype));
    const std::string of = "index(" + spelled(names_.axis(t.index_axis, *t.index_of)) + ")";
    return t.dtype == DType::i64 ? of : std::string(name_of(t.dtype)) + " " + of;
  }

  static std::string sparse(const Tensor& t) {
    if (!t.sparse) return "";
    const Sparse& s = *t.sparse;
    std::string text = " sparse(";
    text += s.form == Sparse::zeros ? "zeros" : (s.form == Sparse::mask ? "mask " : "lengths ") + spelled(s.of);
    if (s.tile_rows != 1 || s.tile_columns != 1)
      text += ", tile " + std::to_string(s.tile_rows) + ", " + std::to_string(s.tile_columns);
    return text + ")";
  }

  // Neighbours of one type share a line.
  std::string declarations() {
    std::string text, line, ending;
    auto flush = [&] {
      if (!line.empty()) text += line + ending + "\n";
      line.clear();
    };
    auto declare = [&](TensorId id, const std::string& keyword) {
      const Tensor& t = p_.tensor(id);
      const std::string one = tensor(id), tail = " : " + type(t) + sparse(t);
      const bool joins =
          line.starts_with(keyword) && tail == ending && !t.sparse && line.size() + one.size() + tail.size() < width;
      if (!joins) flush();
      line += joins ? ", " + one : keyword + " " + one;
      ending = tail;
    };
    for (TensorId id : p_.inputs) declare(id, "input");
    for (std::size_t i = 0; i < p_.tensors.size(); ++i)
      if (p_.tensors[i].kind == Kind::weight) declare(static_cast<TensorId>(i), "weight");
    flush();
    return text;
  }

public:
  std::string statement(const Statement& s) {
    std::vector<std::string> axes(s.axes.size());
    std::set<std::string> taken;
    auto name = [&](AxisId a) {
      const auto i = static_cast<std::size_t>(a);
      axes[i] = names_.axis(hint(s, a), s.axes[i], taken);
      taken.insert(axes[i]);
    };
    for (AxisId a : order_of(s)) name(a);
    return statement(s, axes, &names_);
  }

  std::string statement(const Statement& s, const std::vector<std::string>& axes, HeaderNames* names) {
    const ExprPrinter print(p_, axes, names, order_of(s));
    const Tensor& t = p_.tensor(s.out);
    std::string text = spelled(t.name);
    if (!s.at.empty()) text += "[" + print.indices(s.at) + "]";
    text += " : " + (names ? type(t) : std::string(name_of(t.dtype))) + " = ";
    if (s.reducer != Reducer::none) {
      std::string list;
      for (AxisId a : s.reduced) list += (list.empty() ? "" : " ") + spelled(axes[static_cast<std::size_t>(a)]);
      text += std::string(name_of(s.reducer)) + "[" + list + "] ";
    }
    text += print.scalar(s.body);
    if (s.guard) text += " where " + print.scalar(s.guard);
    return text;
  }

private:
  std::string opaque(const Opaque& o) {
    std::string text = "opaque ";
    for (std::size_t i = 0; i < o.out.size(); ++i)
      text += (i ? ", " : "") + tensor(o.out[i]) + " : " + type(p_.tensor(o.out[i]));
    text += " = " + spelled(o.op) + "(";
    for (std::size_t i = 0; i < o.in.size(); ++i) text += (i ? ", " : "") + spelled(p_.tensor(o.in[i]).name);
    return text + ")";
  }

  std::string outputs() {
    std::string text = "output ";
    for (std::size_t i = 0; i < p_.outputs.size(); ++i) {
      const Tensor& t = p_.tensor(p_.outputs[i]);
      text += (i ? ", " : "") + (t.counted_by.empty() ? spelled(t.name) : tensor(p_.outputs[i], t.counted_by));
      if (t.stored_in) text += " = " + spelled(p_.tensor(*t.stored_in).name);
    }
    return text + "\n";
  }
};

// Names of the axes of one statement on its own: unique, and none missing.
std::vector<std::string> own_names(const Statement& s) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (std::size_t a = 0; a < s.axes.size(); ++a) {
    const std::string hint = a < s.names.size() && !s.names[a].empty() ? s.names[a] : "i";
    std::string name = hint;
    for (int i = 2; !taken.insert(name).second; ++i) name = hint + "_" + std::to_string(i);
    names.push_back(name);
  }
  return names;
}

} // namespace

std::string print(const Program& p) { return ProgramPrinter(p).program(); }
std::string print(const Program& p, const Statement& s) {
  return ProgramPrinter(p).statement(s, own_names(s), nullptr);
}

std::string print(const Program& p, const ScalarRef& s, const std::vector<std::string>& axis_names) {
  return ExprPrinter(p, axis_names, nullptr).scalar(s);
}

std::string print(const Program& p, const Index& i, const std::vector<std::string>& axis_names) {
  return ExprPrinter(p, axis_names, nullptr).index(i);
}

} // namespace tilewright
