#include "onnx/window.h"

#include <algorithm>

#include <fmt/format.h>

namespace tilewright::onnx {

namespace {

std::vector<std::int64_t> per_dim(Context& c, std::string_view name, std::size_t count, std::int64_t otherwise,
                                  std::int64_t least) {
  auto list = c.ints_attr(name, std::vector<std::int64_t>(count, otherwise));
  if (list.size() != count)
    c.fail(Code::model, fmt::format("{} has {} values for {} spatial dims", name, list.size(), count));
  for (std::int64_t v : list)
    if (v < least || v > (std::int64_t{1} << 31)) c.fail(Code::model, fmt::format("{} holds {}", name, v));
  return list;
}

} // namespace

std::vector<WindowDim> window_dims(Context& c, const std::vector<Size>& spatial,
                                   const std::vector<std::int64_t>& kernel, bool ceil) {
  const std::size_t n = spatial.size();
  if (kernel.size() != n) c.fail(Code::shape, fmt::format("kernel has {} dims for {} spatial dims", kernel.size(), n));
  const auto strides = per_dim(c, "strides", n, 1, 1), dilations = per_dim(c, "dilations", n, 1, 1);
  const auto pads = per_dim(c, "pads", 2 * n, 0, 0);
  const std::string mode = c.text_attr("auto_pad", "NOTSET");
  if (mode != "NOTSET" && mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER")
    c.unsupported(fmt::format("auto_pad {}", mode));
  std::vector<WindowDim> dims(n);
  for (std::size_t d = 0; d < n; ++d) {
    WindowDim& w = dims[d];
    w.in = spatial[d], w.kernel = kernel[d], w.stride = strides[d], w.dilation = dilations[d];
    if (w.kernel < 1) c.fail(Code::shape, fmt::format("kernel extent {}", w.kernel));
    if (w.kernel > (std::int64_t{1} << 31) / w.dilation)
      c.fail(Code::size, fmt::format("kernel extent {} with dilation {}", w.kernel, w.dilation));
    if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      w.out = ceil_div(w.in, w.stride);
      const Size total = max((w.out - 1) * w.stride + w.reach() - w.in, 0);
      w.begin = mode == "SAME_UPPER" ? floor_div(total, 2) : ceil_div(total, 2);
      w.end = total - w.begin;
    } else {
      w.begin = mode == "NOTSET" ? pads[d] : 0;
      w.end = mode == "NOTSET" ? pads[d + n] : 0;
      const Size room = w.in + w.begin + w.end - w.reach();
      if (room.is_constant() && room.constant() < 0)
        c.fail(Code::shape, fmt::format("a window of {} does not fit into {} with pads {} and {}", w.reach(),
                                        w.in.text(), w.begin.text(), w.end.text()));
      w.out = floor_div(room, w.stride) + 1;
      if (ceil) {
        // The last window may run over the end, but must begin inside the input or its front pad.
        w.out = min(ceil_div(room, w.stride) + 1, floor_div(w.in + w.begin - 1, w.stride) + 1);
      }
    }
    if (w.in.is_constant() && w.out.is_constant() && w.begin.is_constant()) {
      const std::int64_t last = (w.out.constant() - 1) * w.stride - w.begin.constant() + w.reach() - 1;
      w.inside = w.begin.constant() == 0 && last < w.in.constant();
    }
  }
  return dims;
}

} // namespace tilewright::onnx
