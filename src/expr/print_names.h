// The names of a printed program. Every axis and every extent needs one in the header: declared sizes give theirs, others get
// one made from a hint.
//
//   program p(n, c == 64, c_2 == 128, 'n+1' = n+1)           an axis called c of extent 64, another of extent 128
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "expr/program.h"

namespace tilewright {

class HeaderNames {
 public:
  explicit HeaderNames(const Program&);

  // A name for an axis of this extent: the hint, where it is free or means just that; never one of `taken`.
  std::string axis(const std::string& hint, const Size& extent, const std::set<std::string>& taken = {});
  std::string value(const Size&, const std::string& hint = "s");   // a name that stands for this size
  const std::string* known(const Size&) const;                         // the declared name of a size that is no symbol
  std::string header() const;                                          // program NAME(...), after everything else is printed

 private:
  struct Entry {
    std::string name, text;         // text: " = 3", " == 64", "", ...
    Size size;
    bool as_axis = false;
  };
  const Program& p_;
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t> by_name_;
  std::multimap<std::string, std::size_t> by_size_;
  std::set<std::string> tensors_;

  std::size_t add(std::string name, Size size, std::string text);
  std::string make(const std::string& hint, const Size&, const std::set<std::string>& taken);
  const std::string& use(std::size_t entry, bool as_axis);
};

}  // namespace tilewright
