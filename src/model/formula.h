// Sums of products of powers: what a scheduled region moves, holds and computes, in the sizes of its axes and tiles.
//
//   Formula q = Formula::symbol("q"), d = Formula::symbol("d"), x = Formula::symbol("x"), g = Formula::symbol("g_q");
//   Formula h = 2 * q * d + 2 * x * q * d / g;
//   h.text()                                          ->  2*d*q + 2*d*q*x/g_q
//   h.at({{"q", 8192}, {"x", 8192}, {"d", 128}, {"g_q", 128}})      ->  136314880
//
// Coefficients and powers are doubles: closed forms hold square roots. Equal products are merged, so equal formulas
// print equally.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

namespace tilewright {

using Point = std::map<std::string, double>; // the value of each symbol

class Formula {
public:
  struct Product {
    double factor = 1;
    std::map<std::string, double> powers; // no power is 0
    double at(const Point&) const;
    double power_of(const std::string& symbol) const;
  };

  Formula(double value = 0); // NOLINT: implicit on purpose
  static Formula symbol(const std::string& name);
  static Formula of(Product);

  const std::vector<Product>& products() const { return products_; } // larger total powers first, then by text
  bool is_zero() const { return products_.empty(); }
  double at(const Point&) const; // every symbol must have a value
  Formula with(const std::string& symbol,
               const Formula& by) const;                       // by: one product, where the powers are no whole numbers
  Formula with(const Point&) const;                            // numbers for some symbols
  Formula without(const std::set<std::string>& symbols) const; // the products that have none of them
  std::set<std::string> symbols() const;
  bool mentions(const std::string& symbol) const;
  std::string text() const;

  friend Formula operator+(const Formula&, const Formula&);
  friend Formula operator-(const Formula&, const Formula&);
  friend Formula operator*(const Formula&, const Formula&);
  friend Formula operator/(const Formula&, const Formula&); // by one product
  friend Formula power(const Formula&, double);             // of one product, or a whole power
  friend bool operator==(const Formula& a, const Formula& b) { return a.text() == b.text(); }

private:
  void add(const Product&);
  void sort();
  std::vector<Product> products_;
};

std::string number_text(double); // "1 090 519 040", "0.333", "1.69e-03"
std::string text(const Formula::Product&);

} // namespace tilewright
