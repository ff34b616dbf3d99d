#include "plan/join.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "law/cascades.h"
#include "law/excerpt.h"
#include "support/threads.h"

namespace tilewright {

namespace {

constexpr std::size_t most_sets = 96;    // candidates that share their first group
constexpr std::size_t most_states = 256; // with equally many groups done

using Set = std::vector<int>; // nodes, ascending

bool has(const Set& s, int n) { return std::binary_search(s.begin(), s.end(), n); }
bool disjoint(const Set& a, const Set& b) {
  return std::none_of(a.begin(), a.end(), [&](int n) { return has(b, n); });
}

// A group, or an opaque node (no statements), in an order in which they can run.
struct Node {
  std::vector<StatementId> statements;
  std::size_t group = 0;
  Set sources, neighbours;
  std::vector<bool> before; // every node that must be done before
};

struct Kernel {
  Set nodes;
  Choice choice;
  std::int64_t apart = -1;
  std::int64_t price = 0;
};

// The groups that are done: all before `first`, and some behind it.
struct State {
  int first = 0;
  Set behind;
  auto operator<=>(const State&) const = default;
  bool done(int n) const { return n < first || has(behind, n); }
};
struct Best {
  std::int64_t price = 0;
  int kernels = 0;
  State from;
  std::size_t kernel = 0;
};

struct Joiner {
  const Program& p;
  const Machine& m;
  const PlanOptions& o;
  const std::vector<DimOrder>& layouts;
  const Grouping& given;
  Prices& prices;
  std::vector<Node> nodes;
  std::vector<Kernel> kernels;                    // every single group first, then what may be joined
  std::vector<std::vector<std::size_t>> with;     // kernels that hold a node
  std::vector<std::vector<Alternative>> rejected; // by the last node
  Search search;
  const Ends ends = ends_of(p);
  const Signatures signatures{p, ends.readers, &layouts, prices.statements};

  // ---- the graph

  void make_nodes() {
    std::vector<Node> list;
    std::map<TensorId, std::set<int>> writers;
    for (std::size_t g = 0; g < given.groups.size(); ++g)
      if (!given.groups[g].empty()) list.push_back({given.groups[g], g, {}, {}, {}});
    std::vector<const Opaque*> opaque(list.size(), nullptr);
    for (const auto& node : p.nodes)
      if (const Opaque* x = std::get_if<Opaque>(&node)) list.push_back({{}, 0, {}, {}, {}}), opaque.push_back(x);
    for (std::size_t n = 0; n < list.size(); ++n) {
      if (opaque[n])
        for (TensorId t : opaque[n]->out) writers[t].insert(static_cast<int>(n));
      for (StatementId id : list[n].statements) writers[p.statement(id)->out].insert(static_cast<int>(n));
    }
    std::vector<std::set<int>> sources(list.size());
    for (std::size_t n = 0; n < list.size(); ++n) {
      auto reads = [&](TensorId t) {
        if (const auto w = writers.find(t); w != writers.end()) sources[n].insert(w->second.begin(), w->second.end());
      };
      if (opaque[n])
        for (TensorId t : opaque[n]->in) reads(t);
      for (StatementId id : list[n].statements)
        for_each_access(*p.statement(id), [&](const Access& a) { reads(a.tensor); });
      sources[n].erase(static_cast<int>(n));
    }
    order(std::move(list), sources);
  }

  void order(std::vector<Node> list, const std::vector<std::set<int>>& sources) {
    std::vector<int> place(list.size(), -1);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t n = 0; n < list.size() && !moved; ++n) {
        if (place[n] >= 0 || std::any_of(sources[n].begin(), sources[n].end(),
                                         [&](int s) { return place[static_cast<std::size_t>(s)] < 0; }))
          continue;
        place[n] = static_cast<int>(nodes.size());
        nodes.push_back(std::move(list[n]));
        for (int s : sources[n]) nodes.back().sources.push_back(place[static_cast<std::size_t>(s)]);
        std::sort(nodes.back().sources.begin(), nodes.back().sources.end());
        moved = true;
      }
    }
    TW_ASSERT(nodes.size() == list.size());
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      nodes[n].before.assign(nodes.size(), false);
      for (int s : nodes[n].sources) {
        const Node& source = nodes[static_cast<std::size_t>(s)];
        nodes[n].before[static_cast<std::size_t>(s)] = true;
        for (std::size_t x = 0; x < nodes.size(); ++x)
          if (source.before[x]) nodes[n].before[x] = true;
        if (nodes[n].statements.empty() || source.statements.empty()) continue;
        nodes[n].neighbours.push_back(s);
        nodes[static_cast<std::size_t>(s)].neighbours.push_back(static_cast<int>(n));
      }
    }
  }

  // ---- candidates

  // Connected sets whose first node is n, small ones first.
  std::vector<Set> sets_from(int n) {
    std::vector<Set> list{{n}};
    std::set<Set> seen;
    for (std::size_t at = 0; at < list.size(); ++at) {
      if (static_cast<int>(list[at].size()) >= o.joined) continue;
      const Set from = list[at];
      for (int member : from)
        for (int next : nodes[static_cast<std::size_t>(member)].neighbours) {
          if (next <= n || has(from, next)) continue;
          Set more = from;
          more.insert(std::lower_bound(more.begin(), more.end(), next), next);
          if (!seen.insert(more).second) continue;
          if (list.size() > most_sets) {
            search.exact = false;
            return {list.begin() + 1, list.end()};
          }
          list.push_back(std::move(more));
        }
    }
    return {list.begin() + 1, list.end()};
  }

  // A node outside of the set that needs a member, and that a member needs.
  std::optional<int> between(const Set& set) const {
    for (int x = set.front() + 1; x < set.back(); ++x) {
      bool after = false, before = false;
      for (int n : set) {
        after |= n < x && nodes[static_cast<std::size_t>(x)].before[static_cast<std::size_t>(n)];
        before |= n > x && nodes[static_cast<std::size_t>(n)].before[static_cast<std::size_t>(x)];
      }
      if (after && before && !has(set, x)) return x;
    }
    return std::nullopt;
  }

  std::vector<StatementId> statements(const Set& set) const {
    std::vector<StatementId> list;
    for (int n : set)
      list.insert(list.end(), nodes[static_cast<std::size_t>(n)].statements.begin(),
                  nodes[static_cast<std::size_t>(n)].statements.end());
    std::sort(list.begin(), list.end());
    return list;
  }

  // ---- prices: those that are not known yet are found together, by as many threads as there are

  struct Task {
    Choice* choice;
    Region region;
    std::optional<Apart> apart;
    const PlanOptions* asks;
  };
  std::vector<Task> tasks = {};

  const Choice* priced(const std::string& key, const Region& r, std::optional<Apart> apart, const PlanOptions& asks) {
    const auto [at, fresh] = prices.known.try_emplace(key);
    if (fresh) ++search.priced, tasks.push_back({&at->second, r, apart, &asks}), prices.stands[&at->second] = standing_of(p, r.statements);
    return &at->second;
  }

  void solve() {
    std::atomic<std::size_t> next{0};
    const auto work = [&](int) {
      for (std::size_t n = next++; n < tasks.size(); n = next++) {
        Task& t = tasks[n];
        *t.choice = choose(p, t.region, m, *t.asks, layouts, t.apart ? &*t.apart : nullptr);
      }
    };
    if (const int threads = planning_threads(m, o); threads > 1 && tasks.size() > 4)
      Pool(std::min(threads, static_cast<int>(tasks.size() / 2))).run(work);
    else
      work(0);
    tasks.clear();
  }

  // What was found for one region, for another of the same signature.
  Choice here(const Choice& found, const std::vector<StatementId>& list) const {
    Choice own = found;
    own.schedule = rebound(std::move(own.schedule), prices.stands.at(&found), standing_of(p, list));
    return own;
  }

  void price_singles() {
    std::vector<const Choice*> choices(nodes.size(), nullptr);
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      if (nodes[n].statements.empty()) continue;
      auto r = unify(p, nodes[n].statements);
      TW_ASSERT(static_cast<bool>(r));
      fix_boundary(p, ends.readers, *r);
      choices[n] = priced(signatures.of(nodes[n].statements), *r, std::nullopt, o);
    }
    solve();
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      Kernel k{{static_cast<int>(n)}, {}, -1, 0};
      if (choices[n]) k.choice = here(*choices[n], nodes[n].statements), k.price = k.choice.price;
      kernels.push_back(std::move(k));
    }
  }

  std::string names(const Set& set) const {
    std::string text;
    for (int n : set)
      text += (text.empty() ? "" : " + ") +
              p.tensor(p.statement(nodes[static_cast<std::size_t>(n)].statements.back())->out).name;
    return text;
  }

  bool reported(const Kernel& k) const {
    return k.nodes.size() == 2 || k.choice.price >= 0 || static_cast<int>(k.nodes.size()) > o.joined;
  }

  struct Candidate {
    Kernel kernel;
    const PlanOptions* asks;
    bool cascade = false;
    std::string why = {};           // not, before any price
    const Choice* choice = nullptr; // its price, once it is found
  };
  std::vector<Candidate> candidates = {};

  // Asks for the price of a set of groups, or says what speaks against it.
  std::string ask(Candidate& c) {
    Kernel& k = c.kernel;
    if (const auto x = between(k.nodes)) {
      const auto& list = nodes[static_cast<std::size_t>(*x)].statements;
      return fmt::format("not convex: {} stands between",
                         list.empty() ? "an opaque node" : p.tensor(p.statement(list.back())->out).name);
    }
    Apart apart;
    apart.cascade = c.cascade && m.target != Target::cpu;
    for (int x : k.nodes) {
      apart.price += kernels[static_cast<std::size_t>(x)].price;
      apart.multiply_adds += kernels[static_cast<std::size_t>(x)].choice.cost.multiply_adds;
    }
    k.apart = apart.price;
    const std::vector<StatementId> list = statements(k.nodes);
    std::string key = signatures.of(list);
    for (StatementId id : list) key += ends.writers[static_cast<std::size_t>(p.statement(id)->out)] > 1 ? 'p' : ' ';
    // Why is told of what is reported only.
    if (!reported(k) && prices.none.count(key)) return "no region, as others like it";
    const std::string priced_as =
        fmt::format("{}\napart {} {} {}{}", key, apart.price, apart.multiply_adds, c.asks->margin, apart.cascade ? " cascade" : "");
    if (const auto known = prices.known.find(priced_as); known != prices.known.end()) {
      c.choice = &known->second;
      return {};
    }
    const auto r = joined_region(p, m, list, &ends);
    if (!r) return prices.none.insert(key), r.reason();
    c.choice = priced(priced_as, *r, apart, *c.asks);
    return {};
  }

  // Groups that a cascade has statements of, where sums follow an extreme: what lies between those has a point for each
  // pair of rows and elements.
  std::vector<Set> cascading() const {
    std::vector<Set> list;
    if (o.objective != Objective::time || o.joined < 2) return list;
    for (const Cascade& c : cascades(p, &prices.streams)) {
      if (!c.running) continue;
      Set set;
      for (std::size_t n = 0; n < nodes.size(); ++n)
        if (std::any_of(c.statements.begin(), c.statements.end(), [&](StatementId id) {
              return std::count(nodes[n].statements.begin(), nodes[n].statements.end(), id) > 0;
            }))
          set.push_back(static_cast<int>(n));
      if (set.size() > 1) list.push_back(std::move(set));
    }
    return list;
  }

  void add_candidate(Set set, const PlanOptions& asks, bool cascade = false) {
    ++search.candidates;
    Candidate c{{std::move(set), {}, -1, 0}, &asks, cascade};
    c.why = ask(c);
    candidates.push_back(std::move(c));
  }

  void conclude(Candidate& c) {
    Kernel& k = c.kernel;
    if (c.choice) {
      k.choice.price = c.choice->price;
      c.why = c.choice->rule.empty() && c.choice->price < 0 ? "no tiles are legal" : c.choice->rule;
    }
    if (c.why.empty()) {
      k.choice = here(*c.choice, statements(k.nodes));
      k.price = k.choice.rides ? k.choice.price : asked(k.choice.price, *c.asks);
      kernels.push_back(std::move(k));
    } else if (reported(k)) {
      rejected[static_cast<std::size_t>(k.nodes.back())].push_back(
          {names(k.nodes), k.choice.price, k.apart, std::move(c.why)});
    }
  }

  void price_candidates() {
    rejected.resize(nodes.size());
    std::vector<Set> running;
    run_both(nodes.size() > 32 ? planning_threads(m, o) : 1,
             [&] {
               for (std::size_t n = 0; n < nodes.size(); ++n)
                 for (Set& set : sets_from(static_cast<int>(n))) add_candidate(std::move(set), o);
             },
             [&] { running = cascading(); });
    // A cascade must be predicted to be faster, by however little: what lies between its reductions, a point for each
    // pair of rows and elements, is never stored, so beyond what the model sees it can only win.
    PlanOptions eager = o;
    eager.margin = std::min(o.margin, 0.0);
    for (Set& set : running) add_candidate(std::move(set), eager, true);
    solve();
    for (Candidate& c : candidates) conclude(c);
    candidates.clear();
    with.resize(nodes.size());
    for (std::size_t k = 0; k < kernels.size(); ++k)
      for (int n : kernels[k].nodes) with[static_cast<std::size_t>(n)].push_back(k);
  }

  // ---- dynamic programming

  bool ready(const State& s, const Set& set) const {
    for (int n : set) {
      if (s.done(n)) return false;
      for (int from : nodes[static_cast<std::size_t>(n)].sources)
        if (!s.done(from) && !has(set, from)) return false;
    }
    return true;
  }
  static bool open(const State& s, const Set& set) {
    return std::none_of(set.begin(), set.end(), [&](int n) { return s.done(n); });
  }

  // Nodes that may have to be done before a kernel: its sources, and those of kernels that hold one of them.
  std::set<int> needed_before(const State& s, const Set& kernel) const {
    std::set<int> need;
    std::vector<Set> todo{kernel};
    std::set<std::size_t> seen;
    while (!todo.empty()) {
      const Set set = std::move(todo.back());
      todo.pop_back();
      for (int n : set)
        for (int from : nodes[static_cast<std::size_t>(n)].sources) {
          if (s.done(from) || has(kernel, from) || has(set, from) || !need.insert(from).second) continue;
          for (std::size_t k : with[static_cast<std::size_t>(from)])
            if (open(s, kernels[k].nodes) && disjoint(kernels[k].nodes, kernel) && seen.insert(k).second)
              todo.push_back(kernels[k].nodes);
        }
    }
    return need;
  }

  // The next kernel is the one that holds the first open node; another only where that one has to wait.
  std::set<std::size_t> steps(const State& s) const {
    std::set<std::size_t> list;
    for (std::size_t k : with[static_cast<std::size_t>(s.first)]) {
      const Set& set = kernels[k].nodes;
      if (!open(s, set)) continue;
      if (ready(s, set)) {
        list.insert(k);
        continue;
      }
      for (int n : needed_before(s, set))
        for (std::size_t other : with[static_cast<std::size_t>(n)])
          if (disjoint(kernels[other].nodes, set) && ready(s, kernels[other].nodes)) list.insert(other);
    }
    return list;
  }

  State after(const State& s, const Set& set) const {
    State next = s;
    next.behind.insert(next.behind.end(), set.begin(), set.end());
    std::sort(next.behind.begin(), next.behind.end());
    while (!next.behind.empty() && next.behind.front() == next.first)
      next.behind.erase(next.behind.begin()), ++next.first;
    return next;
  }

  // Keeps the cheapest states where there are too many.
  void thin(std::map<State, Best>& level) {
    if (level.size() <= most_states) return;
    search.exact = false;
    std::vector<std::pair<std::pair<std::int64_t, int>, State>> list;
    for (const auto& [s, b] : level) list.push_back({{b.price, b.kernels}, s});
    std::sort(list.begin(), list.end());
    for (std::size_t i = most_states; i < list.size(); ++i) level.erase(list[i].second);
  }

  std::vector<std::size_t> cheapest() {
    std::vector<std::map<State, Best>> levels(nodes.size() + 1);
    levels[0][State{}] = {};
    for (std::size_t done = 0; done < nodes.size(); ++done) {
      thin(levels[done]);
      search.states += levels[done].size();
      for (const auto& [s, best] : levels[done])
        for (std::size_t k : steps(s)) {
          // Of equal prices the more kernels: joining must save something.
          const Best next{checked_add(best.price, kernels[k].price), best.kernels - 1, s, k};
          const auto [at, fresh] = levels[done + kernels[k].nodes.size()].emplace(after(s, kernels[k].nodes), next);
          if (!fresh && std::pair(next.price, next.kernels) < std::pair(at->second.price, at->second.kernels))
            at->second = next;
        }
    }
    std::vector<std::size_t> chosen;
    State s{static_cast<int>(nodes.size()), {}};
    for (std::size_t done = nodes.size(); done > 0;) {
      const Best& best = levels[done].at(s);
      chosen.push_back(best.kernel);
      done -= kernels[best.kernel].nodes.size();
      s = best.from;
    }
    return chosen;
  }

  // ---- the answer

  Joined run() {
    make_nodes();
    price_singles();
    price_candidates();
    const auto chosen = cheapest();
    std::set<std::size_t> taken(chosen.begin(), chosen.end());
    for (std::size_t k = nodes.size(); k < kernels.size(); ++k)
      if (!taken.count(k))
        rejected[static_cast<std::size_t>(kernels[k].nodes.back())].push_back(
            {names(kernels[k].nodes), kernels[k].choice.price, kernels[k].apart,
             "another choice of kernels costs less in sum"});
    Joined out;
    out.search = search;
    for (std::size_t c = chosen.size(); c-- > 0;) {
      Kernel& k = kernels[chosen[c]];
      auto group = statements(k.nodes);
      if (group.empty()) continue; // an opaque node
      out.grouping.groups.push_back(std::move(group));
      auto& refusals = out.grouping.refusals.emplace_back();
      auto& alternatives = out.alternatives.emplace_back();
      for (int n : k.nodes) {
        const Node& node = nodes[static_cast<std::size_t>(n)];
        const auto& why = given.refusals[node.group];
        refusals.insert(refusals.end(), why.begin(), why.end());
        auto& others = rejected[static_cast<std::size_t>(n)];
        alternatives.insert(alternatives.end(), others.begin(), others.end());
      }
      out.choices.push_back(std::move(k.choice));
      out.groups.push_back(static_cast<int>(k.nodes.size()));
      out.apart.push_back(k.apart);
    }
    return out;
  }
};

} // namespace

int planning_threads(const Machine& m, const PlanOptions& o) {
  return m.target == Target::cpu ? std::min(o.threads, default_threads()) : default_threads();
}

Joined join(const Program& p, const Machine& m, const PlanOptions& o, const std::vector<DimOrder>& layouts,
            const Grouping& given, Prices& prices) {
  return Joiner{p, m, o, layouts, given, prices, {}, {}, {}, {}, {}}.run();
}

} // namespace tilewright
