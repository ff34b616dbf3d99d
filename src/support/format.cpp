// fmt's functions, compiled once for the whole project. As a header alone fmt 9 costs every file that formats a message two to three
// seconds; Debian's library is a shared one, on which the binaries are not to depend. Newer versions stay headers (CMakeLists.txt).
#ifndef FMT_HEADER_ONLY
#include <fmt/format-inl.h>

namespace fmt::detail {

template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl<char>(locale_ref) -> char;
template auto dragonbox::to_decimal<float>(float) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal<double>(double) noexcept -> dragonbox::decimal_fp<double>;

}  // namespace fmt::detail
#endif
