#include "model/formula.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "support/error.h"

namespace tilewright {

namespace {

// Powers that are small fractions, as closed forms have them: 1/2, 2/3.
std::string power_text(double p) {
  for (int d = 1; d <= 6; ++d) {
    const double n = p * d;
    if (std::abs(n - std::round(n)) < 1e-9)
      return d == 1 ? fmt::format("{}", std::llround(n)) : fmt::format("({}/{})", std::llround(n), d);
  }
  return fmt::format("{:.4g}", p);
}

std::string factor_text(double f) {
  if (std::abs(f - std::round(f)) < 1e-9 * std::max(1.0, std::abs(f)) && std::abs(f) < 9e15)
    return fmt::format("{}", std::llround(f));
  return fmt::format("{:.6g}", f);
}

void multiply(std::map<std::string, double>& powers, const std::string& symbol, double p) {
  double& mine = powers[symbol];
  mine += p;
  if (std::abs(mine) < 1e-12) powers.erase(symbol);
}

Formula::Product product(const Formula::Product& a, const Formula::Product& b) {
  Formula::Product out{a.factor * b.factor, a.powers};
  for (const auto& [symbol, p] : b.powers) multiply(out.powers, symbol, p);
  return out;
}

Formula::Product raised(const Formula::Product& a, double p) {
  Formula::Product out{std::pow(a.factor, p), {}};
  for (const auto& [symbol, mine] : a.powers) multiply(out.powers, symbol, mine * p);
  return out;
}

} // namespace

double Formula::Product::at(const Point& point) const {
  double value = factor;
  for (const auto& [symbol, p] : powers) {
    const auto it = point.find(symbol);
    TW_ASSERT(it != point.end());
    value *= p == 1 ? it->second : p == -1 ? 1 / it->second : std::pow(it->second, p);
  }
  return value;
}

double Formula::Product::power_of(const std::string& symbol) const {
  const auto it = powers.find(symbol);
  return it == powers.end() ? 0 : it->second;
}

Formula::Formula(double value) {
  if (value != 0) products_.push_back({value, {}});
}

Formula Formula::symbol(const std::string& name) { return of({1, {{name, 1}}}); }

Formula Formula::of(Product p) {
  Formula f;
  if (p.factor != 0) f.products_.push_back(std::move(p));
  return f;
}

void Formula::add(const Product& p) {
  for (Product& mine : products_)
    if (mine.powers == p.powers) {
      mine.factor += p.factor;
      if (std::abs(mine.factor) < 1e-12 * std::abs(p.factor))
        products_.erase(products_.begin() + (&mine - products_.data()));
      return;
    }
  if (p.factor != 0) products_.push_back(p);
}

void Formula::sort() {
  auto key = [](const Product& p) {
    double total = 0;
    bool divided = false;
    for (const auto& power : p.powers) total += power.second, divided |= power.second < 0;
    return std::tuple(divided, -total, tilewright::text(Product{1, p.powers}));
  };
  std::sort(products_.begin(), products_.end(), [&](const Product& a, const Product& b) { return key(a) < key(b); });
}

double Formula::at(const Point& point) const {
  double total = 0;
  for (const Product& p : products_) total += p.at(point);
  return total;
}

Formula Formula::with(const std::string& symbol, const Formula& by) const {
  Formula out;
  for (const Product& p : products_) {
    const double n = p.power_of(symbol);
    if (n == 0) {
      out.add(p);
      continue;
    }
    Product rest = p;
    rest.powers.erase(symbol);
    const Formula expanded = of(rest) * power(by, n);
    for (const Product& each : expanded.products_) out.add(each);
  }
  out.sort();
  return out;
}

Formula Formula::with(const Point& point) const {
  Formula out;
  for (Product p : products_) {
    for (const auto& [symbol, value] : point)
      if (const double n = p.power_of(symbol); n != 0) p.factor *= std::pow(value, n), p.powers.erase(symbol);
    out.add(p);
  }
  out.sort();
  return out;
}

Formula Formula::without(const std::set<std::string>& symbols) const {
  Formula out;
  for (const Product& p : products_)
    if (std::none_of(p.powers.begin(), p.powers.end(), [&](const auto& x) { return symbols.count(x.first) > 0; }))
      out.products_.push_back(p);
  return out;
}

std::set<std::string> Formula::symbols() const {
  std::set<std::string> all;
  for (const Product& p : products_)
    for (const auto& power : p.powers) all.insert(power.first);
  return all;
}

bool Formula::mentions(const std::string& symbol) const {
  return std::any_of(products_.begin(), products_.end(), [&](const Product& p) { return p.powers.count(symbol) > 0; });
}

std::string text(const Formula::Product& p) {
  std::string above, below;
  int divisors = 0;
  auto write = [](std::string& side, const std::string& symbol, double n) {
    side += (side.empty() ? "" : "*") + symbol + (n == 1 ? "" : "^" + power_text(n));
  };
  for (const auto& [symbol, n] : p.powers)
    if (symbol != "M") write(n < 0 ? below : above, symbol, std::abs(n)), divisors += n < 0;
  // The memory stands last and as a power, M^(-1/2), the way these laws are written.
  if (const double n = p.power_of("M"); n != 0) write(above, "M", n);
  const double f = std::abs(p.factor);
  std::string out = p.factor < 0 ? "-" : "";
  if (above.empty() || std::abs(f - 1) > 1e-12) out += factor_text(f) + (above.empty() ? "" : "*");
  out += above;
  if (!below.empty()) out += divisors > 1 ? "/(" + below + ")" : "/" + below;
  return out;
}

std::string Formula::text() const {
  std::string out;
  for (const Product& p : products_) {
    const std::string one = tilewright::text(p);
    out += out.empty() ? one : one[0] == '-' ? " - " + one.substr(1) : " + " + one;
  }
  return out.empty() ? "0" : out;
}

Formula operator+(const Formula& a, const Formula& b) {
  Formula out = a;
  for (const Formula::Product& p : b.products_) out.add(p);
  out.sort();
  return out;
}

Formula operator-(const Formula& a, const Formula& b) { return a + Formula(-1) * b; }

Formula operator*(const Formula& a, const Formula& b) {
  Formula out;
  for (const Formula::Product& x : a.products_)
    for (const Formula::Product& y : b.products_) out.add(product(x, y));
  out.sort();
  return out;
}

Formula operator/(const Formula& a, const Formula& b) { return a * power(b, -1); }

Formula power(const Formula& a, double p) {
  if (a.products_.size() == 1) return Formula::of(raised(a.products_[0], p));
  if (a.products_.empty() && p > 0) return a;
  TW_ASSERT(p >= 0 && p == std::floor(p) && p <= 16);
  Formula out = 1;
  for (int i = 0; i < static_cast<int>(p); ++i) out = out * a;
  return out;
}

std::string number_text(double v) {
  if (std::abs(v) >= 1e15 || (v != 0 && std::abs(v) < 1e-3)) return fmt::format("{:.4g}", v);
  if (std::abs(v - std::round(v)) > 1e-6 && std::abs(v) < 1e6)
    return std::abs(v) < 1000 ? fmt::format("{:.4g}", v) : fmt::format("{:.1f}", v);
  std::string digits = fmt::format("{}", std::llround(std::abs(v)));
  for (std::size_t i = digits.size(); i > 3;) digits.insert(i -= 3, ",");
  return (v < 0 ? "-" : "") + digits;
}

} // namespace tilewright
