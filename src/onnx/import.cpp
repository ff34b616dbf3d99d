#include "onnx/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "onnx/context.h"
#include "onnx/functions.h"
#include "onnx/prune.h"
#include "onnx/sort.h"
#include "onnx/symbols.h"
#include "support/error.h"

namespace tilewright::onnx {
namespace {

std::string label_of(const Node& node) {
  if (!node.name.empty()) return std::string(node.name);
  for (std::string_view out : node.outputs) {
    if (!out.empty()) return std::string(out);
  }
  return std::string(node.op_type);
}

bool is_plain(std::string_view domain) { return domain.empty() || domain == "ai.onnx"; }

void collect_reads(const Node& node, std::set<std::string_view>& names) {
  names.insert(node.inputs.begin(), node.inputs.end());
  for (const Attribute& a : node.attributes) {
    auto graph = std::get_if<std::shared_ptr<const Graph>>(&a.value);
    if (!graph || !*graph) continue;
    for (const Node& inner : (*graph)->nodes) collect_reads(inner, names);
    for (const ValueInfo& v : (*graph)->outputs) names.insert(v.name);
  }
}

// The nodes (in an order in which each follows what it reads) that the wanted values need.
std::vector<const Node*> live_nodes(const std::vector<Node>& nodes, const std::vector<std::string_view>& wanted) {
  std::set<std::string_view> names(wanted.begin(), wanted.end());
  std::vector<const Node*> live;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    auto read = [&](std::string_view out) { return !out.empty() && names.contains(out); };
    if (std::none_of(node->outputs.begin(), node->outputs.end(), read)) continue;
    live.push_back(&*node);
    collect_reads(*node, names);
  }
  std::reverse(live.begin(), live.end());
  return live;
}

// What one refused node adds to the one error.
struct Problem {
  std::string where, what, hint;
};

class Importer {
public:
  Importer(const Model& model, const ImportOptions& options) : model_(model), options_(options) {}

  Program run() {
    make_inputs();
    make_initializers(model_.graph);
    for (const ValueInfo& v : model_.graph.values) declared_[std::string(v.name)] = &v.type;
    for (const ValueInfo& v : model_.graph.outputs) declared_[std::string(v.name)] = &v.type;
    std::vector<std::string_view> wanted;
    for (const ValueInfo& v : model_.graph.outputs) wanted.push_back(v.name);
    convert_nodes(model_.graph.nodes, wanted);
    report();
    make_outputs();
    return prune(std::move(now_.program), now_.known);
  }

private:
  // ---- inputs and weights

  void make_inputs() {
    now_.program.name = model_.graph.name.empty() ? "model" : std::string(model_.graph.name);
    std::set<std::string_view> initialized;
    for (const Tensor& t : model_.graph.initializers) initialized.insert(t.name);
    Symbols symbols(model_.graph, options_.sizes);
    std::vector<std::pair<const ValueInfo*, std::vector<Size>>> inputs;
    for (const ValueInfo& v : model_.graph.inputs) {
      if (initialized.contains(v.name) || options_.constants.contains(std::string(v.name))) continue;
      if (check_input(v)) inputs.emplace_back(&v, symbols.dims(v));
    }
    symbols.finish();
    now_.program.sizes = symbols.declarations();
    for (auto& [v, dims] : inputs) {
      TensorId t = now_.builder.tensor(std::string(v->name), *dtype_of_element(v->type.element), dims, Kind::input);
      now_.program.inputs.push_back(t);
      define(v->name, t);
    }
    make_constants();
  }

  bool check_input(const ValueInfo& v) {
    std::string what;
    if (!v.type.is_tensor())
      what = fmt::format("an input of type {}", describe(v.type));
    else if (!dtype_of_element(v.type.element))
      what = fmt::format("an input of {}", element_name(v.type.element));
    else if (!v.type.ranked)
      what = "an input of unknown rank";
    if (!what.empty()) problems_.push_back({fmt::format("input '{}'", v.name), what, {}});
    return what.empty();
  }

  void make_constants() {
    for (const auto& [name, array] : options_.constants) {
      auto is = [&](const ValueInfo& v) { return v.name == name; };
      if (std::none_of(model_.graph.inputs.begin(), model_.graph.inputs.end(), is)) {
        throw Error(Code::option, name, "no input has this name");
      }
      check_constant(name, array);
      std::vector<std::byte> bytes(array.data, array.data + array.bytes());
      if (array.count() <= known_limit) {
        Elements elements = decode(array.dtype, bytes, array.count());
        TensorId t = now_.builder.weight(name, array.dtype, array.dims, std::move(bytes));
        now_.known[t] = std::move(elements);
        define(name, t);
      } else {
        define(name, now_.builder.weight(name, array.dtype, array.dims, std::move(bytes)));
      }
    }
  }

  void check_constant(const std::string& name, const Array& array) const {
    const auto& in = model_.graph.inputs;
    const Type& type = std::find_if(in.begin(), in.end(), [&](const ValueInfo& v) { return v.name == name; })->type;
    bool fits = type.is_tensor() && dtype_of_element(type.element) == array.dtype;
    if (fits && type.ranked) {
      fits = type.dims.size() == array.dims.size();
      for (std::size_t i = 0; fits && i < array.dims.size(); ++i)
        fits = !type.dims[i].fixed() || type.dims[i].value == array.dims[i];
    }
    if (fits) return;
    std::string given = fmt::format("{}[{}]", name_of(array.dtype), fmt::join(array.dims, ", "));
    throw Error(Code::input, name, fmt::format("the value given is {}, the input is {}", given, describe(type)));
  }

  void make_initializers(const Graph& graph) {
    for (std::string_view name : graph.sparse_initializers) {
      problems_.push_back({fmt::format("initializer '{}'", name), "a sparse initializer", {}});
    }
    for (const Tensor& t : graph.initializers) {
      if (options_.constants.contains(std::string(t.name))) continue;
      if (!waiting_.emplace(std::string(t.name), &t).second) {
        throw Error(Code::model, std::string(t.name), "two initializers have this name");
      }
    }
  }

  void define(std::string_view name, TensorId t) {
    if (!now_.values.emplace(std::string(name), t).second) {
      throw Error(Code::model, std::string(name), "two values have this name");
    }
  }

  // ---- nodes

  // Makes the weights that a node reads; false where an input came from a node that was refused.
  bool inputs_ready(const Node& node, const std::string& label) {
    for (std::string_view in : node.inputs) {
      std::string name(in);
      if (name.empty() || now_.values.contains(name)) continue;
      if (refused_.contains(name)) return false;
      auto t = waiting_.find(name);
      if (t == waiting_.end()) {
        if (unusable_input(name)) return false;
        throw Error(Code::model, label, fmt::format("reads '{}', which nothing writes", name));
      }
      now_.values[name] = now_.weight(*t->second, now_.prefix + name);
    }
    return true;
  }

  bool unusable_input(const std::string& name) const {
    const auto& in = model_.graph.inputs;
    return depth_ == 0 && std::any_of(in.begin(), in.end(), [&](const ValueInfo& v) { return v.name == name; });
  }

  void convert_nodes(const std::vector<Node>& nodes, const std::vector<std::string_view>& wanted) {
    for (const Node* node : live_nodes(nodes, wanted)) convert(*node);
  }

  void convert(const Node& node) {
    std::string label = now_.prefix + label_of(node);
    int opset = static_cast<int>(node.opset);
    const Operator* op = find_operator(is_plain(node.domain) ? "" : node.domain, node.op_type, opset);
    try {
      bool branch = is_plain(node.domain) && node.op_type == "If";
      if (!op && !branch) refuse_operator(node, label, opset);
      if (!inputs_ready(node, label)) return refuse(node);
      if (branch) return choose(node, label, opset);
      Context c(now_, node, label, opset);
      check_dtypes(*op, dtypes_of(node));
      const std::size_t first = now_.program.nodes.size();
      op->convert(c);
      follow_counts(now_.program, first, now_.counted);
      check_counts(c, node, first);
      for (const std::string& name : c.unread_attributes()) {
        c.unsupported(fmt::format("attribute {}", name));
      }
      for (int i : c.unread_inputs()) c.unsupported(fmt::format("input {}", i));
      check_declared(c, node);
    } catch (const Error& e) {
      if (e.code != Code::unsupported) throw e.at(label);
      problems_.push_back({fmt::format("'{}' ({}, opset {})", label, full_name(node), opset), e.message, e.hint});
      refuse(node);
    }
  }

  // A result that takes only extents from what it is made of (a mask of ones, an identity matrix) would have all rows: what is
  // made of counted tensors is counted, or made of their counts. Shape may tell of other dims.
  void check_counts(const Context& c, const Node& node, std::size_t first) const {
    auto counted = [&](std::string_view name) {
      auto found = now_.values.find(std::string(name));
      return found != now_.values.end() && now_.counted.contains(found->second);
    };
    const auto from = std::find_if(node.inputs.begin(), node.inputs.end(), counted);
    if (from == node.inputs.end() || node.op_type == "Shape" || reads_counts(now_.program, first, now_.counted)) return;
    for (int k = 0; k < c.outputs(); ++k)
      if (c.wants(k) && !counted(node.outputs[static_cast<std::size_t>(k)]))
        c.unsupported(fmt::format("output {} has extents of '{}', which are known only when the model has run", k, *from));
  }

  std::vector<std::optional<DType>> dtypes_of(const Node& node) const {
    std::vector<std::optional<DType>> result;
    for (std::string_view in : node.inputs) {
      auto found = now_.values.find(std::string(in));
      result.push_back(found == now_.values.end() ? std::nullopt
                                                  : std::optional(now_.program.tensor(found->second).dtype));
    }
    return result;
  }

  static std::string full_name(const Node& node) {
    return is_plain(node.domain) ? std::string(node.op_type) : fmt::format("{}.{}", node.domain, node.op_type);
  }

  [[noreturn]] void refuse_operator(const Node& node, const std::string& label, int opset) const {
    if (is_plain(node.domain) && opset < oldest_opset) {
      throw Error(Code::unsupported, label, fmt::format("operator sets before {}", oldest_opset));
    }
    if (is_plain(node.domain) && opset > newest_opset) {
      throw Error(Code::unsupported, label, fmt::format("operator sets after {}", newest_opset));
    }
    throw Error(Code::unsupported, label, reason_not_supported(is_plain(node.domain) ? node.op_type : ""));
  }

  void refuse(const Node& node) {
    for (std::string_view out : node.outputs) refused_.insert(std::string(out));
  }

  // ---- branches: their nodes are converted in place, under a scope of their own

  struct Scope {
    std::unordered_map<std::string, TensorId> values;
    std::unordered_map<std::string, const Tensor*> waiting;
    std::set<std::string> refused;
    std::unordered_map<std::string, const Type*> declared;
    std::string prefix;
  };

  Scope enter(const std::string& label) {
    if (++depth_ > 50) throw Error(Code::model, label, "branches are nested too deep");
    Scope outer{now_.values, waiting_, refused_, declared_, now_.prefix};
    now_.prefix = label + "/";
    declared_.clear();
    return outer;
  }

  void leave(Scope outer) {
    --depth_;
    now_.values = std::move(outer.values);
    waiting_ = std::move(outer.waiting);
    refused_ = std::move(outer.refused);
    declared_ = std::move(outer.declared);
    now_.prefix = std::move(outer.prefix);
  }

  // If with a condition that is known: the branch taken.
  void choose(const Node& node, const std::string& label, int opset) {
    Context c(now_, node, label, opset);
    const Elements* condition = c.known(c.input(0));
    if (!condition || condition->size() != 1 || !condition->front().is_constant()) {
      c.unsupported("a condition that is not known before the model runs");
    }
    const Graph* branch = graph_of(node, condition->front().size == Size(0) ? "else_branch" : "then_branch");
    if (!branch) c.fail(Code::model, "a branch is missing");
    Scope outer = enter(label);
    for (const Tensor& t : branch->initializers) {
      now_.values.erase(std::string(t.name));
      waiting_[std::string(t.name)] = &t;
    }
    std::vector<std::string_view> results;
    for (const ValueInfo& v : branch->outputs) results.push_back(v.name);
    convert_nodes(branch->nodes, results);
    give_results(node, results, std::move(outer), label);
  }

  void give_results(const Node& node, const std::vector<std::string_view>& results, Scope outer,
                    const std::string& label) {
    std::vector<TensorId> made;
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k].empty()) {
        made.push_back(-1);
        continue;
      }
      if (k >= results.size()) throw Error(Code::model, label, "more outputs than its branch has");
      std::string name(results[k]);
      if (auto t = waiting_.find(name); !now_.values.contains(name) && t != waiting_.end()) {
        now_.values[name] = now_.weight(*t->second, now_.prefix + name);
      }
      auto found = now_.values.find(name);
      made.push_back(found == now_.values.end() ? -1 : found->second);
    }
    leave(std::move(outer));
    for (std::size_t k = 0; k < made.size(); ++k) {
      if (node.outputs[k].empty()) continue;
      if (made[k] < 0)
        refused_.insert(std::string(node.outputs[k]));
      else
        now_.values[std::string(node.outputs[k])] = made[k];
    }
  }

  // ---- declared types

  void check_declared(const Context& c, const Node& node) const {
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      std::string_view out = node.outputs[k];
      if (out.empty()) continue;
      auto made = now_.values.find(std::string(out));
      if (made == now_.values.end())
        c.fail(k == 0 ? Code::internal : Code::model, fmt::format("there is no output {}, '{}'", k, out));
      auto declared = declared_.find(std::string(out));
      if (declared != declared_.end()) check_type(c, out, made->second, *declared->second);
    }
  }

  static void check_type(const Context& c, std::string_view name, TensorId t, const Type& type) {
    if (!type.is_tensor()) return;
    if (auto d = dtype_of_element(type.element); d && *d != c.dtype(t)) {
      c.fail(Code::type, fmt::format("'{}' is {} and declared as {}", name, name_of(c.dtype(t)), name_of(*d)));
    }
    if (!type.ranked) return;
    std::vector<Size> dims = c.dims(t);
    bool agree = dims.size() == type.dims.size();
    const std::vector<TensorId> counts = c.counts(t);
    for (std::size_t i = 0; agree && i < dims.size(); ++i) {
      if (!type.dims[i].fixed() || !dims[i].is_constant()) continue;
      const std::int64_t declared = type.dims[i].value, extent = dims[i].constant();
      agree = counts[i] < 0 ? extent == declared : declared <= extent; // the most that there can be
    }
    if (!agree)
      c.fail(Code::shape, fmt::format("'{}' has shape {} and is declared as {}", name, text_of(dims), describe(type)));
  }

  // ---- the end

  void report() const {
    if (problems_.empty()) return;
    std::string where = problems_.size() == 1 ? problems_[0].where : fmt::format("{} places", problems_.size());
    std::string text, hint;
    for (const Problem& p : problems_) {
      text +=
          problems_.size() == 1 ? fmt::format("not supported: {}", p.what) : fmt::format("\n  {}: {}", p.where, p.what);
      if (hint.empty()) hint = p.hint;
    }
    if (problems_.size() > 1) text = "not supported:" + text;
    throw Error(Code::unsupported, where, text, hint);
  }

  // Every output is a tensor of its own name that a statement writes; one that is an input under its own name stays
  // that.
  void make_outputs() {
    if (model_.graph.outputs.empty()) throw Error(Code::model, model_.file, "the model has no outputs");
    for (const ValueInfo& v : model_.graph.outputs) {
      std::string name(v.name);
      if (auto t = waiting_.find(name); !now_.values.contains(name) && t != waiting_.end()) {
        now_.values[name] = now_.weight(*t->second, name);
      }
      auto found = now_.values.find(name);
      if (found == now_.values.end()) throw Error(Code::model, name, "nothing writes this output");
      now_.program.outputs.push_back(output_tensor(name, found->second));
    }
  }

  // A statement's result takes the name of the output; an input, a constant or an output of another name is copied.
  TensorId output_tensor(const std::string& name, TensorId t) {
    tilewright::Tensor& tensor = now_.program.tensor(t);
    auto known = now_.known.find(t);
    bool taken = std::find(now_.program.outputs.begin(), now_.program.outputs.end(), t) != now_.program.outputs.end();
    bool constant = tensor.kind == Kind::weight || (known != now_.known.end() && all_constant(known->second));
    if (tensor.kind == Kind::input && tensor.name == name) return t;
    if (tensor.kind != Kind::intermediate || constant || taken) {
      std::vector<Size> dims = tensor.dims;
      now_.builder.place = tilewright::Place{0, 0, name};
      ScalarRef body = zero_of(tensor.dtype);
      if (count_of(dims) != Size(0)) body = now_.builder.read(t, axis_indices(static_cast<int>(dims.size())));
      const std::size_t first = now_.program.nodes.size();
      t = now_.builder.statement(name, tensor.dtype, dims, body);
      follow_counts(now_.program, first, now_.counted);
    }
    for (auto& other : now_.program.tensors) {
      if (other.name == name) other.name = now_.builder.unique(name + ".value");
    }
    now_.program.tensor(t).name = name;
    if (auto counts = now_.counted.find(t); counts != now_.counted.end()) now_.program.tensor(t).counted_by = counts->second;
    return t;
  }

  static bool all_constant(const Elements& e) {
    return std::all_of(e.begin(), e.end(), [](const Element& x) { return x.is_constant(); });
  }

  const Model& model_;
  const ImportOptions& options_;
  Importing now_;
  std::unordered_map<std::string, const Tensor*> waiting_; // initializers that no node has read yet
  std::unordered_map<std::string, const Type*> declared_;
  std::set<std::string> refused_; // values that a refused node would have made
  std::vector<Problem> problems_;
  int depth_ = 0;
};

} // namespace

Program import_onnx(const Model& model, const ImportOptions& options) {
  Model whole = inline_functions(model);
  sort_nodes(whole.graph, whole.file);
  return Importer(whole, options).run();
}

} // namespace tilewright::onnx
